"""Where the first NaN or infinity comes from that one of the CPU and the HTP has and the other has not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from qnndbg.analyze.normalize import Array, numbers
from qnndbg.model.graph import Node, TensorRef
from qnndbg.model.recording import QnnGraph, Run
from qnndbg.model.result import Rung
from qnndbg.recording.store import Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFinite:
    """An input that holds NaN or infinities, or an op that makes them of finite numbers."""

    method: str
    sample: int
    name: str
    """The input, or the QNN tensor."""
    nan: int = 0
    positive: int = 0
    """Infinities above all numbers."""
    negative: int = 0
    """Those below."""
    op: str = ""
    """Empty for an input or a constant."""
    constant: bool = False
    module: str = ""
    source: str = ""
    on_htp: bool = False
    """The HTP has them, and the CPU has numbers."""

    @property
    def what(self) -> str:
        """How many of which kind, such as ``2 NaN``."""
        infinite = self.positive + self.negative
        counts = {"NaN": self.nan, "infinity" if infinite == 1 else "infinities": infinite}
        return " and ".join(f"{count} {kind}" for kind, count in counts.items() if count)


def nonfinite_of(recording: Recording, ladder: Iterable[Rung]) -> tuple[NonFinite, ...]:
    """The first place of each sample in which a rung has NaN or infinities where the one before has numbers.

    NaN come before infinities, which masks hold on purpose: what makes NaN of these is the place.

    Args:
        recording: of the inputs, and of the runs ``reference`` and ``htp-tapped``.
        ladder: of its outputs.
    """
    parting = {
        (rung.method, rung.sample): None
        for rung in ladder
        if rung.against_previous is not None and rung.against_previous.nonfinite
    }
    return tuple(
        found
        for method, sample in parting
        if (found := min(_places(recording, method, sample), key=_rank, default=None)) is not None
    )


def _rank(place: NonFinite) -> int:
    """What to name first; places that are equal in this stand in the order of execution."""
    if place.on_htp:
        return 3
    if place.op:
        return 1 if place.nan else 2
    return 0 if place.nan or place.positive else 4


def _places(recording: Recording, method: str, sample: int) -> Iterator[NonFinite]:
    for given in recording.inputs(method, sample):
        values = _read(recording, given.tensor)
        if values is not None:
            yield from _counted(NonFinite(method=method, sample=sample, name=given.name), values)
    reference, htp = (recording.run(name, method, sample) for name in ("reference", "htp-tapped"))
    for graph in recording.qnn:
        if graph.method == method:
            yield from _constants(recording, graph, sample)
        if graph.method == method and reference is not None and htp is not None:
            computed, dumped = (_of_partition(run, graph.partition) for run in (reference, htp))
            for name in (name for op in graph.ops for name in op.outputs if name in computed):
                if name in dumped:
                    yield from _made(recording, graph, name, computed[name], dumped[name], sample)


def _constants(recording: Recording, graph: QnnGraph, sample: int) -> Iterator[NonFinite]:
    for node in recording.graph(graph.graph).nodes:
        values = _read(recording, node.constant) if node.constant is not None else None
        if values is not None:
            place = NonFinite(
                method=graph.method, sample=sample, name=node.target or node.name, constant=True
            )
            yield from _counted(place, values)


def _made(
    recording: Recording, graph: QnnGraph, name: str, computed: TensorRef, dumped: TensorRef, sample: int
) -> Iterator[NonFinite]:
    """The tensor, if one side of it has only finite numbers and the other has not."""
    cpu, chip = (_read(recording, side) for side in (computed, dumped))
    if cpu is None or chip is None or np.isfinite(cpu).all() == np.isfinite(chip).all():
        return
    tensor = next(tensor for tensor in graph.tensors if tensor.name == name)
    nodes = (node for node in recording.graph(graph.graph).nodes if node.name == tensor.node)
    node = next(nodes, Node(name=name, op="call_function"))
    place = NonFinite(
        method=graph.method,
        sample=sample,
        name=name,
        op=node.target,
        module=node.origin.module_path,
        source=node.origin.source,
        on_htp=not np.isfinite(chip).all(),
    )
    yield from _counted(place, chip if place.on_htp else cpu)


def _counted(place: NonFinite, values: Array) -> Iterator[NonFinite]:
    """The place with what it has, if it has any."""
    if not np.isfinite(values).all():
        positive, negative = (int(np.count_nonzero(values == sign * np.inf)) for sign in (1, -1))
        yield replace(place, nan=int(np.isnan(values).sum()), positive=positive, negative=negative)


def _of_partition(run: Run, partition: int) -> dict[str, TensorRef]:
    return {value.name: value.tensor for value in run.values if value.partition == partition}


def _read(recording: Recording, ref: TensorRef) -> Array | None:
    """The numbers of a tensor; None for one that cannot hold NaN or infinities."""
    values = numbers(recording.tensor(ref), ref.dtype)
    return values if values is not None and values.dtype.kind == "f" else None

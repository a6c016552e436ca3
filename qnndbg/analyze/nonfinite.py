"""Where the first NaN or infinity comes from that one of the CPU and the HTP has and the other has not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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
    what: str
    """How many, and of which kind, such as ``2 NaN``."""
    op: str = ""
    """Empty for an input."""
    module: str = ""
    source: str = ""
    on_htp: bool = False
    """The HTP has them, and the CPU has numbers."""


def nonfinite_of(recording: Recording, ladder: Iterable[Rung]) -> tuple[NonFinite, ...]:
    """The first place of each sample in which a rung has NaN or infinities where the one before has numbers.

    Args:
        recording: of the inputs, and of the runs ``local`` and ``htp-tapped``.
        ladder: of its outputs.
    """
    parting = {
        (rung.method, rung.sample): None
        for rung in ladder
        if rung.against_previous is not None and rung.against_previous.nonfinite
    }
    firsts = (next(_places(recording, method, sample), None) for method, sample in parting)
    return tuple(first for first in firsts if first is not None)


def _places(recording: Recording, method: str, sample: int) -> Iterator[NonFinite]:
    for given in recording.inputs(method, sample):
        if what := _counted(_read(recording, given.tensor)):
            yield NonFinite(method=method, sample=sample, name=given.name, what=what)
    local, htp = (recording.run(name, method, sample) for name in ("local", "htp-tapped"))
    for graph in recording.qnn:
        if graph.method == method and local is not None and htp is not None:
            computed, dumped = (_of_partition(run, graph.partition) for run in (local, htp))
            for name in (name for op in graph.ops for name in op.outputs if name in computed):
                if name in dumped:
                    yield from _made(recording, graph, name, computed[name], dumped[name], sample)


def _made(
    recording: Recording, graph: QnnGraph, name: str, computed: TensorRef, dumped: TensorRef, sample: int
) -> Iterator[NonFinite]:
    """The tensor, if one side of it has only finite numbers and the other has not."""
    cpu, chip = (_counted(_read(recording, side)) for side in (computed, dumped))
    if bool(cpu) == bool(chip):
        return
    tensor = next(tensor for tensor in graph.tensors if tensor.name == name)
    nodes = (node for node in recording.graph(graph.graph).nodes if node.name == tensor.node)
    node = next(nodes, Node(name=name, op="call_function"))
    yield NonFinite(
        method=graph.method,
        sample=sample,
        name=name,
        what=cpu or chip,
        op=node.target,
        module=node.origin.module_path,
        source=node.origin.source,
        on_htp=bool(chip),
    )


def _of_partition(run: Run, partition: int) -> dict[str, TensorRef]:
    return {value.name: value.tensor for value in run.values if value.partition == partition}


def _read(recording: Recording, ref: TensorRef) -> Array | None:
    return numbers(recording.tensor(ref), ref.dtype)


def _counted(values: Array | None) -> str:
    """How many NaN and infinities there are, in words; empty if none."""
    if values is None or values.dtype.kind != "f":
        return ""
    undefined, unbounded = np.count_nonzero(np.isnan(values)), np.count_nonzero(np.isinf(values))
    counts = {"NaN": undefined, "infinity" if unbounded == 1 else "infinities": unbounded}
    return " and ".join(f"{count} {kind}" for kind, count in counts.items() if count)

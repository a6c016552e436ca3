"""Where the first NaN or infinity comes from that one of the CPU and the HTP has and the other has not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from qnndbg.analyze.normalize import Array, numbers
from qnndbg.model.graph import Origin, TensorRef
from qnndbg.model.recording import Run
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
        what = _counted(_read(recording, given.tensor))
        if what:
            yield NonFinite(method=method, sample=sample, name=given.name, what=what)
    local, htp = (recording.run(name, method, sample) for name in ("local", "htp-tapped"))
    for graph in recording.qnn:
        if graph.method != method or local is None or htp is None:
            continue
        computed, dumped = _of_partition(local, graph.partition), _of_partition(htp, graph.partition)
        nodes = {node.name: node for node in recording.graph(graph.graph).nodes}
        made_for = {tensor.name: nodes.get(tensor.node) for tensor in graph.tensors}
        for op in graph.ops:
            for name in op.outputs:
                if name not in computed or name not in dumped:
                    continue
                cpu, chip = (_read(recording, side[name]) for side in (computed, dumped))
                node = made_for.get(name)
                origin = node.origin if node is not None else Origin()
                for what, on_htp in ((_counted(cpu), False), (_counted(chip), True)):
                    if what and bool(_counted(cpu)) != bool(_counted(chip)):
                        yield NonFinite(
                            method=method,
                            sample=sample,
                            name=name,
                            what=what,
                            op=node.target if node is not None else op.type,
                            module=origin.module_path,
                            source=origin.source,
                            on_htp=on_htp,
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

"""Finds the pass that changed the numbers between two rungs that should agree, by bisection on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from qnndbg.analyze.verdict import SAME_NUMBERS_DB
from qnndbg.capture.tensors import tensor_from_array
from qnndbg.execute.difference import Ran, first_difference
from qnndbg.execute.reference import Meaning
from qnndbg.model.attribution import PassChange
from qnndbg.model.recording import PassEvent, Run, RunnerName, Stage
from qnndbg.pipeline.snapshots import Snapshot, list_snapshots, run_snapshot
from qnndbg.pipeline.stored import tensor_from
from qnndbg.recording.store import Recording

BETWEEN: dict[tuple[RunnerName, RunnerName], tuple[Stage, ...]] = {
    ("eager", "annotation"): ("annotation",),
    ("quantized", "export"): ("export",),
    ("eager", "export"): ("export",),
    ("export", "edge"): ("edge", "transform"),
    ("edge", "transform"): ("transform",),
    ("transform", "reference"): ("preprocess",),
}
"""Two rungs, and the stages whose passes lie between them."""
INT32 = torch.iinfo(torch.int32)


def search_passes(recording: Recording, method: str, sample: int) -> tuple[PassChange, ...]:
    """The guilty pass of each pair of rungs that part.

    Args:
        recording: with the runs of all rungs on the CPU.
        method: whose rungs.
        sample: of which inputs.
    """
    found = []
    for (after, before), stages in BETWEEN.items():
        right, wrong = recording.run(after, method, sample), recording.run(before, method, sample)
        quantised_already = after == "eager" and recording.run("quantized", method, sample) is not None
        if right is None or wrong is None or (before == "export" and quantised_already):
            continue
        if _part(_results(recording, right), _results(recording, wrong)):
            change = _Search(recording, method, sample, right, wrong, stages).find()
            found += [change] if change else []
    return tuple(found)


class _Search:
    """One pair of rungs."""

    def __init__(
        self,
        recording: Recording,
        method: str,
        sample: int,
        right: Run,
        wrong: Run,
        stages: Sequence[Stage],
    ) -> None:
        self.recording, self.method, self.sample = recording, method, sample
        self.right, self.wrong = right, wrong
        self.expected = _results(recording, right)
        self.meaning: Meaning = "float" if wrong.runner == "annotation" else "quantised"
        self.events = [
            event
            for event in recording.passes
            if event.method == method and event.stage in stages and event.changed and event.after
        ]
        self.snapshots = {(s.stage, s.partition, s.digest): s for s in list_snapshots(recording, method)}

    def find(self) -> PassChange | None:
        """The first pass behind which the results are wrong; None if no snapshot shows it."""
        low, high = 0, len(self.events)
        while low < high:
            middle = (low + high) // 2
            if self._is_wrong(self.events[middle]):
                high = middle
            else:
                low = middle + 1
        return self._change(self.events[low]) if low < len(self.events) else None

    def _is_wrong(self, event: PassEvent) -> bool:
        snapshot = self._snapshot(event)
        walk = run_snapshot(self.recording, snapshot, sample=self.sample, meaning=self.meaning)
        return _part(self.expected, walk.results)

    def _snapshot(self, event: PassEvent) -> Snapshot:
        return self.snapshots[event.stage, event.partition, event.after]

    def _change(self, event: PassEvent) -> PassChange:
        return PassChange(
            method=self.method,
            sample=self.sample,
            after=self.right.runner,
            before=self.wrong.runner,
            event=event.index,
            stage=event.stage,
            name=event.name,
            partition=event.partition,
            digests=(event.before, event.after),
            node=self._node(event),
            narrowed=self._narrows(event),
        )

    def _node(self, event: PassEvent) -> str:
        """Where in the pass's graph the numbers begin to differ."""
        if not event.before:
            return ""
        digests = (event.before, event.after)
        return first_node(self.recording, self._snapshot(event), digests, self.sample, self.meaning)

    def _narrows(self, event: PassEvent) -> bool:
        """Whether an int64 value before the pass is beyond int32, and the pass made it int32."""
        if not event.before:
            return False
        graph = self.recording.graph(event.after)
        casts = any(spec is not None and spec.dtype == "int32" for n in graph.nodes for spec in n.outputs)
        inputs = [
            self.recording.tensor(item.tensor) for item in self.recording.inputs(self.method, self.sample)
        ]
        wide = [value for value in inputs if value.dtype == "int64" and value.size]
        return casts and any(value.max() > INT32.max or value.min() < INT32.min for value in wide)


def first_node(
    recording: Recording, snapshot: Snapshot, digests: tuple[str, str], sample: int, meaning: Meaning
) -> str:
    """The node of a pass's graph with which the numbers begin to differ; empty if none could be told.

    Args:
        recording: complete or not.
        snapshot: what the pass left.
        digests: of the graphs before and after it.
        sample: whose inputs they are run with.
        meaning: with or without the rounding of quantisation.
    """
    before, after = (
        Ran(
            recording.graph(digest),
            run_snapshot(recording, replace(snapshot, digest=digest), sample=sample, meaning=meaning).values,
        )
        for digest in digests
    )
    return first_difference(before, after, lambda ref: tensor_from(recording, ref), _differs)


def _results(recording: Recording, run: Run) -> list[torch.Tensor | None]:
    return [
        None if ref is None else tensor_from_array(recording.tensor(ref), ref.dtype) for ref in run.results
    ]


def _part(expected: Sequence[object], results: Sequence[object]) -> bool:
    """Whether any output differs by more than the order of additions explains."""
    return any(
        isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and _differs(one, other)
        for one, other in zip(expected, results, strict=False)
    )


def _differs(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.numel() != other.numel():
        return True
    a, b = one.double().reshape(-1), other.double().reshape(-1)
    if torch.equal(a.isfinite(), b.isfinite()):
        a, b = a[a.isfinite()], b[b.isfinite()]
    error, signal = float((a - b).norm()), float(a.norm())
    return not error <= signal * 10 ** (-SAME_NUMBERS_DB / 20)

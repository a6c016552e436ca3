"""Finds the pass behind which one output is no longer what it was, by running stored snapshots on the CPU.

Reads a recording and writes nothing. The search within ``record`` holds neighbouring rungs against each
other; this one follows one output from the model to the last graphs before the HTP, and whoever asks says
how good is good enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np
import torch

from qnndbg.analyze.metrics import measure
from qnndbg.analyze.verdict import SAME_NUMBERS_DB, quality
from qnndbg.capture.tensors import tensor_from_array
from qnndbg.errors import RecordingError, UsageError
from qnndbg.model.recording import RunnerName, Stage
from qnndbg.pipeline.pass_search import first_node
from qnndbg.pipeline.snapshots import Snapshot, list_snapshots, meaning_of, run_snapshot
from qnndbg.recording.store import Recording

STAGES: tuple[Stage, ...] = ("annotation", "quantized", "export", "edge", "transform", "preprocess")
"""Those before the HTP; what is built of the delegates afterwards computes what they do."""
LOSS_DB = 1.0
"""A smaller loss over all passes is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which output is followed, and what it is held against."""

    output: int = 0
    method: str = "forward"
    sample: int = 0
    against: RunnerName = "eager"
    below: float | None = None
    """An SQNR in dB below which it is wrong; None for halfway between the first graph and the last."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """The output behind one pass."""

    position: int
    """Of the pass event in the recording."""
    stage: str
    name: str
    """Of the pass; empty for what a stage begins with."""
    partition: int | None
    sqnr_db: float
    """Against what was asked for; ``SAME_NUMBERS_DB`` at most, where two graphs are the same."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the search found."""

    output: int
    method: str
    sample: int
    against: str
    below: float | None
    """The SQNR in dB that was taken for the border; None if no more than ``LOSS_DB`` was lost on the way."""
    graphs: int
    """Snapshots that could have been run."""
    probes: tuple[Probe, ...]
    """Those that were run, in the order of the lowering."""
    found: Probe | None
    """The first of them that is wrong; None if none is."""
    node: str
    """With which of its nodes the numbers begin to differ; empty if none could be told."""


OnProbe = Callable[[Probe, int], None]
"""Gets each probe, and how many more are to come at most."""


def bisect(recording: Recording, question: Question, on_probe: OnProbe) -> Answer:
    """Find the first pass behind which the output is wrong.

    Args:
        recording: complete or not.
        question: which output, and what is wrong.
        on_probe: called with each graph that was run.

    Raises:
        UsageError: there is no such output.
        RecordingError: a part that is needed is missing, or a graph cannot be run on the CPU.
    """
    return _Bisection(recording, question, on_probe).answer()


class _Bisection:
    """One search."""

    def __init__(self, recording: Recording, question: Question, on_probe: OnProbe) -> None:
        self.recording, self.question, self.on_probe = recording, question, on_probe
        self.expected = _expected(recording, question)
        self.positions = {event.index: i for i, event in enumerate(recording.passes)}
        self.points = [s for s in list_snapshots(recording, question.method) if s.stage in STAGES]
        self.probes: dict[int, Probe] = {}
        if not self.points:
            raise RecordingError(f"no graph of {question.method} was recorded")

    def answer(self) -> Answer:
        below = self.question.below if self.question.below is not None else self._halfway()
        found = None if below is None else self._first_below(below)
        return Answer(
            output=self.question.output,
            method=self.question.method,
            sample=self.question.sample,
            against=self.question.against,
            below=below,
            graphs=len(self.points),
            probes=tuple(self.probes[at] for at in sorted(self.probes)),
            found=None if found is None else self.probes[found],
            node="" if found is None else self._node(self.points[found]),
        )

    def _halfway(self) -> float | None:
        """Between the first graph and the last."""
        last = len(self.points) - 1
        begin, end = (self._probe(at, left=last.bit_length()).sqnr_db for at in (0, last))
        return (begin + end) / 2 if begin - end > LOSS_DB else None

    def _first_below(self, below: float) -> int | None:
        low, high = 0, len(self.points)
        while low < high:
            middle = (low + high) // 2
            if self._probe(middle, left=(high - low).bit_length() - 1).sqnr_db < below:
                high = middle
            else:
                low = middle + 1
        return low if low < len(self.points) else None

    def _probe(self, at: int, *, left: int) -> Probe:
        if at not in self.probes:
            snapshot = self.points[at]
            self.probes[at] = Probe(
                position=self.positions[snapshot.event],
                stage=snapshot.stage,
                name=snapshot.made_by,
                partition=snapshot.partition,
                sqnr_db=self._sqnr(snapshot),
            )
            self.on_probe(self.probes[at], left)
        return self.probes[at]

    def _sqnr(self, snapshot: Snapshot) -> float:
        sample, meaning = self.question.sample, meaning_of(snapshot.stage)
        walk = run_snapshot(self.recording, snapshot, sample=sample, meaning=meaning)
        value = walk.results[self.question.output] if self.question.output < len(walk.results) else None
        if not isinstance(value, torch.Tensor):
            why = next(iter(walk.problems.values()), "it is no tensor there")
            behind = f"behind {snapshot.made_by}" if snapshot.made_by else f"where {snapshot.stage} begins"
            raise RecordingError(f"output {self.question.output} cannot be computed {behind}: {why}")
        if value.numel() != self.expected.numel():
            return -SAME_NUMBERS_DB
        error = measure(_numbers(self.expected), _numbers(value))
        return max(min(quality(error), SAME_NUMBERS_DB), -SAME_NUMBERS_DB)

    def _node(self, snapshot: Snapshot) -> str:
        """Where it begins; rounding is everywhere, so that of the quantiser begins nowhere."""
        event = self.recording.passes[self.positions[snapshot.event]]
        if not event.before or event.stage == "quantized":
            return ""
        digests = (event.before, event.after)
        return first_node(self.recording, snapshot, digests, self.question.sample, meaning_of(event.stage))


def _expected(recording: Recording, question: Question) -> torch.Tensor:
    run = recording.run(question.against, question.method, question.sample)
    if run is None:
        ran = dict.fromkeys(run.runner for run in recording.runs.values() if run.results)
        raise UsageError(
            f"{recording.folder} has no results of {question.against} for sample {question.sample} of "
            f"{question.method}",
            f"it has those of {', '.join(ran)}; name one with --against" if ran else "",
        )
    ref = run.results[question.output] if 0 <= question.output < len(run.results) else None
    if ref is None:
        tensors = [str(number) for number, result in enumerate(run.results) if result is not None]
        raise UsageError(
            f"{question.method} has no output {question.output} that is a tensor",
            f"those that are: {', '.join(tensors)}" if tensors else "",
        )
    return tensor_from_array(recording.tensor(ref), ref.dtype)


def _numbers(value: torch.Tensor) -> np.ndarray:
    """Flat, since some passes turn axes of size one; in a type that numpy has."""
    return value.detach().reshape(-1).to(torch.float64).numpy()

"""The difference of two recordings: brings together what the other modules find."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qnndbg.analyze.baseline.reduce import baseline_of
from qnndbg.analyze.diff import program
from qnndbg.analyze.diff.graphs import last_graphs
from qnndbg.analyze.diff.layers import layer_diffs
from qnndbg.analyze.diff.outputs import other_inputs, output_diffs, rung_diffs
from qnndbg.analyze.diff.parting import graph_parting
from qnndbg.analyze.diff.passes import pass_diffs, settle, times
from qnndbg.analyze.diff.qnn import pair_tensors, qnn_diffs
from qnndbg.analyze.diff.run_parting import run_parting
from qnndbg.analyze.diff.sides import Sides
from qnndbg.model.diff import Diff
from qnndbg.recording.store import Recording, open_recording


def diff(a: str | Path | Recording, b: str | Path | Recording) -> Diff:
    """Compare two recordings, given by their paths or opened.

    Raises:
        RecordingError: one cannot be read.
    """
    left, right = (side if isinstance(side, Recording) else open_recording(side) for side in (a, b))
    return diff_recordings(left, right)


def diff_recordings(a: Recording, b: Recording) -> Diff:
    """Compare two recordings, complete or not; if one is a baseline, by what a baseline holds of both.

    Raises:
        RecordingError: a part of one is missing or damaged.
    """
    with collector_paused():
        if a.canonical != b.canonical:
            return _diff(baseline_of(a), baseline_of(b))
        return _diff(a, b)


@contextmanager
def collector_paused() -> Iterator[None]:
    """A graph is very many small objects without a cycle; walking them takes longest of all."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _diff(a: Recording, b: Recording) -> Diff:
    sides = Sides(a, b)
    settle(sides)
    tensors = pair_tensors(sides)
    answers = a.comparison(), b.comparison()
    others = other_inputs(a, b)
    found = Diff(
        same=True,
        a=program.page_of(a),
        b=program.page_of(b),
        first_parting=graph_parting(sides),
        environment=program.environment_changes(a.manifest, b.manifest),
        methods=program.method_changes(a.manifest, b.manifest),
        fallbacks=program.fallback_diffs(sides),
        passes=pass_diffs(sides.a.passes, sides.b.passes),
        graphs=last_graphs(sides),
        qnn=qnn_diffs(sides, tensors),
        layers=layer_diffs(*answers, tensors),
        rungs=rung_diffs(*answers),
        outputs=output_diffs(a, b),
        outputs_note=_note(others),
        accuracy=program.accuracy_changes(a.manifest, b.manifest),
        sizes=program.size_changes(a, b),
        times=times(a.passes, b.passes),
    )
    return run_parting(found, others)


def _note(others: list[tuple[str, int]]) -> str:
    if not others:
        return ""
    samples = ", ".join(f"{method} {sample}" for method, sample in others)
    return f"the inputs differ, so outputs cannot be held against one another: {samples}"

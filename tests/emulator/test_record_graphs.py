"""What a recording holds of the graphs can be executed again, and gives what was lowered bit for bit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, get_args

import pytest
import torch

from qnndbg.errors import RecordingError
from qnndbg.execute.reference import Meaning
from qnndbg.model.recording import Stage
from qnndbg.pipeline.snapshots import Snapshot, list_snapshots, run_snapshot
from qnndbg.pipeline.stored import tensor_from
from qnndbg.recording.store import Recording
from tests.emulator.conftest import ROOT, Recorded

TARGETS = (
    ("example:digits", "8a8w"),
    ("example:rnet", "16a8w"),
    ("example:silero", "16a8w"),
    ("example:silero", "fp16"),
    (f"{ROOT}/examples/mixed.py:mixed", "16a8w"),
    ("fallback", "8a8w"),
    ("topk", "8a8w"),
    ("embedding", "fp16"),
    ("state", "fp16"),
)
"""All bundled examples, and nets of several partitions, outputs of one op, int64 inputs, and a state."""

Step = tuple[Snapshot, Sequence[torch.Tensor]]


@pytest.fixture(scope="module", params=TARGETS, ids=lambda target: "-".join(target).rpartition(":")[2])
def recording(request: pytest.FixtureRequest, recorded: Recorded) -> Recording:
    return recorded(*request.param)


@pytest.fixture(scope="module")
def quantised(recording: Recording) -> list[Step]:
    return walked(recording, "quantised")


@pytest.fixture(scope="module")
def floats(recording: Recording) -> list[Step]:
    return walked(recording, "float")


def walked(recording: Recording, meaning: Meaning) -> list[Step]:
    """What every distinct snapshot of every stage gives for the recorded inputs."""
    steps = []
    for snapshot in list_snapshots(recording):
        walk = run_snapshot(recording, snapshot, meaning=meaning)
        assert walk.problems == {}, snapshot
        assert walk.values, snapshot
        steps.append((snapshot, tensors(walk.results)))
    return steps


def tensors(results: Sequence[Any]) -> Sequence[torch.Tensor]:
    return [result for result in results if isinstance(result, torch.Tensor)]


def ran(recording: Recording, runner: str) -> Sequence[torch.Tensor]:
    """What torch itself made of the module."""
    return [tensor_from(recording, ref) for ref in recording.runs[runner].results if ref is not None]


def equal(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def movers(steps: Sequence[Step]) -> list[str]:
    """The passes behind which the results are others than before."""
    pairs = itertools.pairwise(steps)
    return [snapshot.made_by for (_, before), (snapshot, after) in pairs if not equal(before, after)]


def test_every_stage_has_snapshots_and_each_is_run(recording: Recording, quantised: list[Step]) -> None:
    events = {(e.stage, e.partition, e.after) for e in recording.passes if e.after}
    assert {(s.stage, s.partition, s.digest) for s, _ in quantised} == events
    reached = list(dict.fromkeys(snapshot.stage for snapshot, _ in quantised))
    first = 0 if "quantized" in recording.runs else get_args(Stage).index("export")
    assert reached == list(get_args(Stage))[first:]
    partitions = {snapshot.partition for snapshot, _ in quantised} - {None}
    assert partitions == {graph.partition for graph in recording.qnn}


def test_every_snapshot_gives_what_was_lowered_bit_for_bit(
    recording: Recording, quantised: list[Step]
) -> None:
    for snapshot, results in quantised:
        before = snapshot.stage == "annotation" or "quantized" not in recording.runs
        assert equal(results, ran(recording, "eager" if before else "quantized")), snapshot


def test_in_float_only_the_rounding_of_weights_moves_the_results(
    recording: Recording, floats: list[Step]
) -> None:
    assert equal(floats[0][1], ran(recording, "eager"))
    assert movers(floats) == (["convert_pt2e"] if "quantized" in recording.runs else [])


def test_float_is_another_meaning_than_quantised(
    recording: Recording, quantised: list[Step], floats: list[Step]
) -> None:
    for (snapshot, one), (_, other) in zip(quantised, floats, strict=True):
        same = snapshot.stage == "annotation" or "quantized" not in recording.runs
        assert equal(one, other) == same, snapshot


def test_each_stage_begins_with_what_the_one_before_left(recording: Recording) -> None:
    for event, before in zip(recording.passes[1:], recording.passes, strict=False):
        if event.before:
            assert (event.before, event.stage) == (before.after, before.stage)
        else:  # a stage, or its second half, begins with what no pass made
            assert event.name in {"", "convert_pt2e", "to_backend"}
        assert event.changed <= (event.before not in {"", event.after})


def test_no_state_of_a_run_leaks_into_the_next(recording: Recording, quantised: list[Step]) -> None:
    snapshot, results = quantised[-1]
    once, twice = (run_snapshot(recording, snapshot) for _ in range(2))
    assert equal(tensors(once.results), results)
    assert equal(tensors(twice.results), results)
    assert once.state.keys() == twice.state.keys()
    assert all(torch.equal(value, twice.state[name]) for name, value in once.state.items())


def test_a_sample_that_was_not_recorded_is_refused(recording: Recording) -> None:
    snapshot = list_snapshots(recording)[0]
    with pytest.raises(RecordingError, match="sample 7 of the method forward has 0"):
        run_snapshot(recording, snapshot, sample=7)

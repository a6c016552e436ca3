"""Faults of one step each: the verdict names the step, the place in it, and the line of the model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from qnndbg.analyze.compare import compare
from qnndbg.errors import QnndbgError
from qnndbg.model.result import Comparison
from qnndbg.pipeline.record import Request, record
from qnndbg.recording.store import Recording, open_recording
from tests.emulator import nets
from tests.emulator.conftest import NETS, Recorded


def compared(recording: Recording) -> Comparison:
    comparison = recording.comparison()
    assert comparison is not None
    return comparison


def line_of(text: str) -> str:
    """Where a text stands in nets.py."""
    lines = NETS.read_text(encoding="utf-8").splitlines()
    (number,) = (i for i, line in enumerate(lines, 1) if text in line)
    return f"nets.py:{number}"


def test_quantiser_that_clips_is_to_blame_at_the_op(recorded: Recorded) -> None:
    verdict = compared(recorded("clipped", "8a8w")).verdict
    assert (verdict.kind, verdict.op, verdict.confidence) == (
        "quantisation",
        "aten.linear.default",
        "measured",
    )
    assert verdict.share is not None
    # The rest is clipped again behind the next op, whose encoding saw no such sums either.
    assert 0.7 < verdict.share <= 1.0
    assert line_of("self.head(self.total(x))") in verdict.text
    # The encoding reaches no further than the largest sum that it was calibrated with.
    module, (x,), calibration = nets.clipped()
    assert isinstance(module, nets.Sum)
    with torch.no_grad():
        largest = max(float(module.total(signs).max()) for (signs,) in calibration)
        clipped = float((module.total(x) > largest).double().mean())
    assert f"{clipped:.1%} of its values are clipped" in verdict.text


def test_quantiser_is_not_to_blame_for_the_inputs(recorded: Recorded) -> None:
    found = compared(recorded("clipped", "8a8w")).sources
    assert {source.step for source in found if abs(source.share) > 0.1} >= {"quantisation"}
    assert [s.cause for s in found if s.kind == "input" and s.cause == "clipped"] == []


def test_numbers_beyond_int32_are_narrowed_by_a_pass(recorded: Recorded) -> None:
    recording = recorded("long", "fp16")
    verdict = compared(recording).verdict
    assert (verdict.kind, verdict.culprit, verdict.op) == ("dtype", "I64toI32", "aten.mul.Tensor")
    assert line_of("x * 2 + 1") in verdict.text
    (change,) = recording.pass_changes
    assert (change.after, change.before, change.narrowed) == ("edge", "transform", True)
    wrong, right = (recording.runs[name].results[0] for name in ("transform", "eager"))
    assert wrong is not None
    assert right is not None
    exact = recording.tensor(right).reshape(-1).tolist()
    assert exact[0] == (2**33 + 7) * 2 + 1
    wrapped = [(n + 2**31) % 2**32 - 2**31 for n in exact]
    assert recording.tensor(wrong).reshape(-1).tolist() == wrapped


def test_lowering_that_fails_is_to_blame_at_the_op(tmp_path: Path) -> None:
    folder = tmp_path / "padded.qnndbg"
    with pytest.raises(QnndbgError):
        record(Request(target=f"{NETS}:padded", precision="fp16", output=folder), lambda _event: None)
    recording = open_recording(folder)
    verdict = compare(recording).verdict
    assert (verdict.kind, verdict.op) == ("lowering", "aten.constant_pad_nd.default")
    assert line_of("same: torch.Tensor = self.conv(x)") in verdict.text
    failure = recording.manifest.failure
    assert failure is not None
    assert failure.node is not None
    assert (failure.stage, failure.node.module) == ("partition", "conv")
    assert verdict.text.endswith(failure.error)

"""NaN and infinities are followed to where they come from, an input or an op."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulator.conftest import Command, Recorded

NETS = Path(__file__).with_name("nonfinite_nets.py")


@pytest.mark.parametrize(("net", "what"), [("given_nan", "1 NaN"), ("given_infinity", "1 infinity")])
def test_an_input_that_holds_them_is_named(net: str, what: str, recorded: Recorded) -> None:
    comparison = recorded(f"{NETS}:{net}", "fp16").comparison()
    assert comparison is not None
    assert (comparison.verdict.kind, comparison.verdict.culprit) == ("input", "input 0")
    assert f"input: input 0 holds {what}, and the HTP knows neither" in comparison.verdict.text


def test_the_op_that_makes_them_is_named_and_not_the_one_behind(recorded: Recorded) -> None:
    comparison = recorded(f"{NETS}:log_of_negatives", "fp16").comparison()
    assert comparison is not None
    verdict = comparison.verdict
    assert (verdict.kind, verdict.op, verdict.culprit) == ("format", "aten.log.default", "aten_log_default@0")
    assert "log (tests/emulator/nonfinite_nets.py:29) makes" in verdict.text


def test_a_mask_is_no_fault(recorded: Recorded) -> None:
    comparison = recorded(f"{NETS}:masked", "fp16").comparison()
    assert comparison is not None
    assert comparison.verdict.kind == "clean"
    assert {s.cause for s in comparison.sources} <= {"rounding", "precision", "kernel", "amplified"}
    assert sum(s.share for s in comparison.sources if s.name != "x") == pytest.approx(1.0, abs=0.2)


def test_what_makes_nan_of_a_mask_is_named_and_not_the_mask(recorded: Recorded) -> None:
    comparison = recorded(f"{NETS}:masked_row", "fp16").comparison()
    assert comparison is not None
    assert (comparison.verdict.kind, comparison.verdict.op) == ("format", "aten._softmax.default")
    assert "makes 8 NaN on the CPU" in comparison.verdict.text


@pytest.mark.parametrize(
    ("net", "hint"),
    [
        ("given_nan", "calibration sample 0 holds NaN or infinities"),
        ("log_of_negatives", "the model makes NaN of the calibration inputs"),
    ],
)
def test_a_range_of_them_is_explained(net: str, hint: str, command: Command) -> None:
    done = command("record", f"{NETS}:{net}", "--precision", "8a8w", "-o", "out.qnndbg")
    assert done.returncode == 4
    assert hint in " ".join(done.stderr.split())

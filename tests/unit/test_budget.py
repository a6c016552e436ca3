"""The error budget of ladders whose errors are known."""

from __future__ import annotations

import math

import pytest

from qnndbg.analyze.budget import Part, budget
from qnndbg.analyze.metrics import measure
from qnndbg.model.recording import RunnerName
from qnndbg.model.result import Rung
from tests.unit.recordings import real


def rung(name: RunnerName, error: float | None) -> Rung:
    """A rung that parts from the one before by so much of the signal."""
    metrics = None if error is None else measure(real(10.0), real(10.0 * (1 + error)))
    return Rung(name=name, output=0, against_eager=None, against_previous=metrics)


def test_shares_go_with_the_square_of_the_errors() -> None:
    parts = budget(
        [rung("eager", None), rung("quantized", 0.3), rung("transform", 0.0), rung("htp-tapped", 0.1)]
    )
    shares = {part.step: part.share for part in parts}
    assert shares == {
        "quantisation": pytest.approx(0.9, rel=1e-5),
        "pass": 0.0,
        "backend": pytest.approx(0.1, rel=1e-5),
    }


def test_the_rungs_of_a_step_add_up() -> None:
    parts = {part.step: part for part in budget([rung("export", 0.3), rung("edge", 0.4)])}
    assert parts["pass"].relative == pytest.approx(0.5, rel=1e-5)
    assert parts["quantisation"] == Part(step="quantisation", relative=None, share=None)


def test_no_error_has_no_shares() -> None:
    assert all(part.share is None for part in budget([rung("quantized", 0.0), rung("htp", 0.0)]))


def test_what_turns_nan_has_no_share() -> None:
    nan = Rung(
        name="htp",
        output=0,
        against_eager=None,
        against_previous=measure(real(1.0, 1.0), real(1.0, math.nan)),
    )
    parts = {part.step: part for part in budget([rung("quantized", 0.1), nan])}
    assert parts["backend"].relative == math.inf
    assert parts["quantisation"].share is None

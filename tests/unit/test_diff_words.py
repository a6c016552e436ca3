"""What is said of two ladders: differences that the rounding of float32 explains lead nowhere."""

from __future__ import annotations

from pathlib import Path

from qnndbg.analyze.diff.recordings import diff_recordings
from qnndbg.model.diff import RungDiff
from qnndbg.model.recording import Failure
from qnndbg.model.result import ErrorMetrics
from qnndbg.report.diff_words import change_of, delta, headline, shown, significant
from tests.unit.lowerings import lowering, plain
from tests.unit.test_diff_layers import EQUAL, error

ROUNDED, COARSE = error(153.0), error(49.3)


def rung(a: ErrorMetrics | None, b: ErrorMetrics | None, name: str = "annotation") -> RungDiff:
    return RungDiff(name=name, method="forward", output=0, a=a, b=b)


def test_rounding_of_float32_moves_no_rung() -> None:
    assert not significant(rung(ROUNDED, EQUAL))
    assert not significant(rung(error(120.0), error(150.0)))
    assert significant(rung(ROUNDED, COARSE))
    assert significant(rung(EQUAL, COARSE))
    assert delta(rung(ROUNDED, COARSE)) == delta(rung(EQUAL, COARSE)) == 49.3 - 100


def test_a_change_is_told_in_words_where_decibels_say_little() -> None:
    told = [
        change_of(rung(a, b))
        for a, b in (
            (ROUNDED, ROUNDED),
            (ROUNDED, EQUAL),
            (EQUAL, ROUNDED),
            (EQUAL, COARSE),
            (ROUNDED, error(120.0)),
            (COARSE, error(49.31)),
            (COARSE, error(40.0)),
            (COARSE, error(150.0)),
        )
    ]
    assert told == ["=", "now equal", "was equal", "was equal", "rounding", "<0.1 dB", "−9.3 dB", "+100.7 dB"]


def test_eager_is_shown_where_one_side_lacks_it() -> None:
    assert not shown(rung(EQUAL, error(200.0), "eager"))
    assert shown(rung(EQUAL, None, "eager"))
    assert shown(rung(EQUAL, EQUAL))


def test_two_that_end_early_are_the_same_only_as_far_as_they_go(tmp_path: Path) -> None:
    failure = Failure(step="htp", error="no kernel")
    steps = [("transform", "", plain())]
    early, other = (lowering(tmp_path / name, steps, failure=failure) for name in "ab")
    assert headline(diff_recordings(early, other)) == "same: all that there is; both end early"
    whole = lowering(tmp_path / "whole", steps)
    assert headline(diff_recordings(whole, whole)) == "same: passes, graphs, QNN graphs and numbers"

"""QD5xx: how far the measurement can be trusted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from qnndbg.model.recording import Run, RunnerName
from qnndbg.model.result import Coverage
from qnndbg.recording.writer import Writer
from tests.unit.evidence import EXACT, ladder, quantised
from tests.unit.rules.cases import Case, Made, check_fires, check_misses


def dumped(htp_tapped: float, htp: float) -> Made:
    """What the dump leaves, and what the production build has against it."""
    return Made(ladder=ladder(("htp-tapped", htp_tapped, htp_tapped), ("htp", htp_tapped, htp)))


def run(runner: RunnerName, **problems: str) -> Callable[[Writer], Run]:
    def make(_: Writer) -> Run:
        return Run(runner=runner, problems=problems)

    return make


def model(db: float) -> Made:
    return Made(ladder=quantised(model=db, edge=EXACT, htp=EXACT, final=db), evidence={"precision": "8a8w"})


def covered(compared: int, **reasons: int) -> Made:
    return Made(evidence={"coverage": Coverage(compared=compared, total=3, reasons=reasons)})


CASES = [
    Case(
        rule="QD501", severity="note", where="output 0", fires=dumped(80.0, 70.0), misses=dumped(80.0, EXACT)
    ),
    Case(
        rule="QD501",
        about="that hides an error",
        severity="warning",
        where="output 0",
        fires=dumped(20.0, 59.0),
        misses=dumped(20.0, EXACT),
    ),
    Case(
        rule="QD502",
        severity="warning",
        where="htp",
        fires=Made(runs=(run("htp", repeated="2 of 3 runs differ"),)),
        misses=Made(runs=(run("htp", relu="it could not be evaluated"),)),
    ),
    Case(rule="QD503", severity="error", where="output 0", fires=model(14.9), misses=model(15.0)),
    Case(rule="QD504", severity="note", where="coverage", fires=covered(2, lost=1), misses=covered(3)),
    Case(
        rule="QD505",
        severity="note",
        where="topk",
        fires=Made(runs=(run("htp-tapped", topk="its dump is wrong; the program's output stands in"),)),
        misses=Made(runs=(run("htp", topk="something else"),)),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_it_fires(case: Case, tmp_path: Path) -> None:
    check_fires(case, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_near_miss_does_not(case: Case, tmp_path: Path) -> None:
    check_misses(case, tmp_path)


def test_a_dump_that_disturbs_little_hides_no_error(tmp_path: Path) -> None:
    made = dumped(20.0, 60.0)
    check_fires(Case(rule="QD501", severity="note", where="output 0", fires=made, misses=made), tmp_path)

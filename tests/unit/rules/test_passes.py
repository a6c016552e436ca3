"""QD4xx: what passes did, and what they said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qnndbg.model.recording import PassEvent
from tests.unit.rules.cases import Case, Made, check_fires, check_misses
from tests.unit.rules.test_encodings import changed


def ran(name: str = "FoldQDQ", **fields: Any) -> Made:
    return Made(passes=(PassEvent(index=0, stage="transform", name=name, **fields),))


CASES = [
    Case(rule="QD401", severity="error", where="I64toI32", fires=changed(), misses=changed(narrowed=True)),
    Case(rule="QD402", severity="error", where="FoldQDQ", fires=ran(error="KeyError: 'val'"), misses=ran()),
    Case(
        rule="QD403",
        severity="note",
        where="passes",
        fires=ran(claimed_modified=True),
        misses=ran(claimed_modified=True, changed=True),
    ),
    Case(
        rule="QD403",
        about="a pass that says nothing",
        severity="note",
        where="passes",
        fires=ran(claimed_modified=True),
        misses=ran(claimed_modified=None),
    ),
    Case(
        rule="QD404",
        severity="note",
        where="passes",
        fires=ran(claimed_modified=False, changed=True),
        misses=ran(claimed_modified=None, changed=True),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_it_fires(case: Case, tmp_path: Path) -> None:
    check_fires(case, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_near_miss_does_not(case: Case, tmp_path: Path) -> None:
    check_misses(case, tmp_path)

"""Which of the places that make an error is named."""

from __future__ import annotations

import pytest

from qnndbg.analyze.verdict import culprit_of
from tests.unit.evidence import source


def test_the_largest_share_that_adds_to_the_error_is_named() -> None:
    takes, adds = source("mul", share=-2.7), source("add", share=1.9)
    assert culprit_of((takes, adds)) == adds
    assert culprit_of((takes,)) == takes


@pytest.mark.parametrize(
    ("causes", "culprit"),
    [
        ([("kernel", 0.6), ("amplified", 0.4)], 0),
        ([("amplified", 0.6), ("kernel", 0.4)], 1),
        ([("amplified", 0.6), ("kernel", -0.4)], 1),
        ([("amplified", 0.6), ("kernel", 0.2)], 0),
        ([("amplified", 0.6), ("amplified", 0.5)], 0),
    ],
)
def test_what_only_rounds_yields_to_what_errs_almost_as_much(
    causes: list[tuple[str, float]], culprit: int
) -> None:
    found = [source(str(i), cause=cause, share=share) for i, (cause, share) in enumerate(causes)]
    assert culprit_of(found) == found[culprit]


def test_culprit_of_nothing() -> None:
    assert culprit_of(()) is None

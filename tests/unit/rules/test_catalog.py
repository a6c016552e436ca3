"""Every rule is described, in the words of the catalogue, and has a test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from qnndbg.analyze.rules.catalog import CATALOG, CAUSE_RULES, RULES
from qnndbg.model.result import Cause
from tests.unit.rules import test_encodings, test_graph, test_method, test_numerics, test_passes

PAGE = (Path(__file__).parents[3] / "docs/reference/rules.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (QD\d+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
CASES = [
    case
    for family in (test_numerics, test_encodings, test_graph, test_passes, test_method)
    for case in family.CASES
]


def test_every_rule_has_a_section_and_every_section_a_rule_in_order() -> None:
    assert list(SECTIONS) == [rule.id for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_section_has_the_title_and_the_help_of_its_rule(rule: object) -> None:
    text = SECTIONS[rule.id]  # type: ignore[attr-defined]
    found = re.search(
        r"^\n\*\*(.+?)\*\*\n.+^- Severity: .+^- Evidence: .+^- Help: (.+?)\n", text, re.MULTILINE | re.DOTALL
    )
    assert found is not None
    assert found.groups() == (rule.title, rule.help)  # type: ignore[attr-defined]


def test_every_rule_has_a_case_that_fires_and_one_that_does_not() -> None:
    assert {case.rule for case in CASES} == set(CATALOG)


def test_every_cause_has_a_rule() -> None:
    assert set(CAUSE_RULES) == set(get_args(Cause))
    assert set(CAUSE_RULES.values()) <= set(CATALOG)

"""docs/reference/policy.md names every key of a policy and every field of a triage, with its default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec import Struct

from qnndbg.gate.policy import (
    AllowedDtype,
    AllowedFallback,
    LayerLimit,
    Limits,
    OutputLimit,
    Policy,
    Waiver,
    parse_policy,
)
from qnndbg.model.triage import Blame, Judgement, Triage

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "reference/policy.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """From a heading to the next one of its level or above."""
    start = re.search(rf"^(#+) {re.escape(title)}$", TEXT, re.MULTILINE)
    assert start is not None, title
    end = re.compile(rf"^#{{1,{len(start[1])}}} ", re.MULTILINE).search(TEXT, start.end())
    return TEXT[start.end() : end.start() if end else None]


def test_limits_and_their_defaults() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", section("`[limits]`"), re.MULTILINE))
    assert rows == {field: str(getattr(Limits(), field) or 0.0) for field in Limits.__struct_fields__} | {
        "sqnr_db": "none"
    }


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("`[[output]]`", OutputLimit),
        ("`[[op]]` and `[[module]]`", LayerLimit),
        ("`[[allow.fallback]]`", AllowedFallback),
        ("`[[allow.dtype]]`", AllowedDtype),
        ("`[[waiver]]`", Waiver),
        ("Triage as JSON", Triage),
        ("Triage as JSON", Judgement),
        ("Triage as JSON", Blame),
    ],
)
def test_every_field_is_described(title: str, kind: type[Struct]) -> None:
    named = set(re.findall(r"`(\w+)`", section(title)))
    assert {*kind.__struct_fields__} <= named


def test_every_table_of_a_policy_is_described() -> None:
    for field in Policy.__struct_fields__:
        assert re.search(rf"\[+{field}[\].]", TEXT), field


def test_policy_of_the_guide_is_one() -> None:
    guide = (DOCS / "howto/guard-a-model-in-ci.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    policy = parse_policy(text, "guide")
    assert (policy.limits.drop_db, policy.module[0].excess, len(policy.waiver)) == (0.5, 8, 1)

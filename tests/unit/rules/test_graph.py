"""QD3xx: what was delegated, and what reached the partitions."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from qnndbg.analyze.causes import sources_of
from qnndbg.model.graph import Node, TensorRef
from qnndbg.model.recording import Fallback, Method
from tests.unit.evidence import attribution, effect
from tests.unit.rules.cases import WRONG, Case, Made, check_fires, check_misses

VALUE = TensorRef("0" * 32, "float32", (3,))
CONSTANT = Node(name="c", op="get_attr", target="fc.scale")
STATE = Node(name="cache", op="placeholder", role="state")
KEPT = Fallback(node="topk", op="aten.topk.default", reason="the backend has no builder for it")


def method(partitions: int, *fallbacks: Fallback) -> Made:
    return Made(manifest={"methods": (Method(name="forward", partitions=partitions, fallbacks=fallbacks),)})


def reads_state(state: str) -> Made:
    found = effect(error=0.04, state=state)
    return Made(ladder=WRONG, evidence={"sources": sources_of(attribution(found))})


CASES = [
    Case(
        rule="QD301",
        severity="warning",
        where="c",
        fires=Made(nodes=(CONSTANT,)),
        misses=Made(nodes=(replace(CONSTANT, constant=VALUE),)),
    ),
    Case(rule="QD302", severity="note", where="topk", fires=method(1, KEPT, KEPT), misses=method(1)),
    Case(rule="QD303", severity="warning", where="forward", fires=method(0), misses=method(1)),
    Case(rule="QD304", severity="note", where="forward", fires=method(2), misses=method(1)),
    Case(
        rule="QD305",
        severity="note",
        where="cache",
        fires=Made(nodes=(STATE,)),
        misses=Made(nodes=(replace(STATE, constant=VALUE),)),
    ),
    Case(
        rule="QD305",
        about="that makes an output wrong",
        severity="error",
        where="aten_mul_tensor@0",
        fires=reads_state("cache"),
        misses=reads_state(""),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_it_fires(case: Case, tmp_path: Path) -> None:
    check_fires(case, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_near_miss_does_not(case: Case, tmp_path: Path) -> None:
    check_misses(case, tmp_path)

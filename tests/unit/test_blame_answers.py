"""The benchmark of blame: which verdicts count as right."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from benchmarks.blame.answer import Answer, class_is_right, culprit_is_right, op_is_right, short
from benchmarks.blame.seeded import WEIGHTS, family_of, plan
from qnndbg.analyze.verdict import empty_comparison
from qnndbg.model.result import Comparison, Source, Verdict


def said(kind: str, culprit: str = "", op: str = "", text: str = "") -> Comparison:
    verdict = Verdict(kind=kind, text=text, culprit=culprit, next_step="", op=op)  # type: ignore[arg-type]
    return empty_comparison(verdict)


@pytest.mark.parametrize(
    ("rule", "right", "wrong"),
    [
        ("op:mul", said("format", op="aten.mul.Tensor"), said("format", op="aten.add.Tensor")),
        ("op:median", said("lowering", op="aten.abs.default, aten.median.dim"), said("lowering")),
        ("pass:FoldQDQ", said("pass", "FoldQDQ"), said("pass", "I64toI32")),
        ("output:1", said("backend", "output 1"), said("backend", "output 0")),
        ("input", said("input", "input 0"), said("backend", "input 0")),
        ("stage", said("lowering", "preprocess"), said("lowering")),
        ("names:bfloat16", said("lowering", text="no bfloat16"), said("lowering", text="KeyError")),
    ],
)
def test_a_rule_holds_for_the_culprit_alone(rule: str, right: Comparison, wrong: Comparison) -> None:
    answer = Answer(kinds=("backend",), culprits=(rule,))

    assert [culprit_is_right(answer, one) for one in (right, wrong)] == [True, False]


def test_a_constant_is_told_from_an_op_by_the_sources() -> None:
    answer = Answer(kinds=("format",), culprits=("constant",))
    source = Source(
        step="backend",
        method="forward",
        sample=0,
        output=0,
        kind="constant",
        name="c",
        op="",
        module="",
        source="",
        share=1.0,
        excess=None,
        cause="flushed",
        detail="",
    )
    verdict = said("format", "c")

    assert culprit_is_right(answer, replace(verdict, sources=(source,)))
    assert not culprit_is_right(answer, replace(verdict, sources=(replace(source, kind="op"),)))


def test_the_pass_and_the_op_that_it_touched_must_both_be_named() -> None:
    answer = Answer(kinds=("pass",), culprits=("pass:P",), touched=("op:sub",))

    assert culprit_is_right(answer, said("pass", "P", "aten.sub.Tensor"))
    assert not culprit_is_right(answer, said("pass", "P", "aten.add.Tensor"))
    assert not culprit_is_right(answer, said("pass", "Q", "aten.sub.Tensor"))


def test_any_of_several_classes_is_right() -> None:
    answer = Answer(kinds=("backend", "dtype"))

    assert class_is_right(answer, said("dtype").verdict)
    assert not class_is_right(answer, said("clean").verdict)


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("aten.constant_pad_nd.default", "constant_pad_nd"),
        ("aten_constant_pad_nd_default_1", "constant_pad_nd"),
        ("aten_mul_tensor", "mul"),
        ("add", "add"),
    ],
)
def test_ops_are_told_from_the_names_of_either_debugger(name: str, op: str) -> None:
    assert short(name) == op
    assert op_is_right(Answer(kinds=("backend",), culprits=(f"op:{op}",)), [name])


def test_a_short_run_has_every_family_and_no_two_seeds_share_a_case() -> None:
    one, other = plan(1, len(WEIGHTS)), plan(2, len(WEIGHTS))

    assert {(family_of(spec.name), spec.precision) for spec in one} == set(WEIGHTS)
    assert not {spec.name for spec in one} & {spec.name for spec in other}

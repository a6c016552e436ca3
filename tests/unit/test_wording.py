"""What a verdict says, where its parts are missing or unusual."""

from __future__ import annotations

import dataclasses
import math
from typing import get_args

import pytest
from msgspec.structs import replace

from qnndbg.analyze import phrases, wording
from qnndbg.analyze.touched import Touched
from qnndbg.analyze.verdict import GuiltyPass, Payload
from qnndbg.model.attribution import PassChange
from qnndbg.model.graph import Node
from qnndbg.model.recording import FailingNode, Failure, Fallback, PassEvent
from qnndbg.model.result import Cause, Rung
from tests.unit.evidence import EXACT, error, half, source

RUNG = half(15.0)[-1]
TOPK = Fallback(node="topk", op="aten.topk.default", reason="there is no builder for it")


def test_every_cause_has_a_remedy_that_can_be_filled_in() -> None:
    assert set(wording.REMEDIES) == set(get_args(Cause))
    for cause in get_args(Cause):
        found = source(cause=cause)
        step = wording.blamed("backend", found, [found], RUNG, RUNG).next_step
        assert "{" not in step
        assert step[0].isupper()
        assert step.endswith(".")


@pytest.mark.parametrize(
    ("op", "short"),
    [
        ("aten.hardswish.default", "hardswish"),
        ("aten.mean.dim", "mean"),
        ("Transpose", "Transpose"),
        ("", ""),
    ],
)
def test_short_op(op: str, short: str) -> None:
    assert phrases.short_op(op) == short


def test_place_that_is_no_op_is_called_what_it_is() -> None:
    for kind in ("constant", "input"):
        found = source(kind=kind, name="b_eps", op="", module="", source="")
        verdict = wording.blamed("format", found, [found], RUNG, RUNG)
        assert f"is made at the {kind} b_eps: " in verdict.text


def test_magnified_error_begins_and_is_not_made() -> None:
    found = source(cause="amplified")
    assert "begins at hardswish" in wording.blamed("amplification", found, [found], RUNG, RUNG).text


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "the output"),
        ({"output": 2}, "output 2"),
        ({"method": "decode"}, "the output of decode"),
        ({"method": "decode", "output": 1, "sample": 3}, "output 1 of decode in sample 3"),
    ],
)
def test_output_is_numbered_where_that_tells_it_apart(fields: dict[str, object], name: str) -> None:
    assert phrases.output_name(replace(RUNG, **fields)) == name


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, "no comparison"),
        (error(EXACT), "no error"),
        (error(12.34), "12.3 dB"),
        (error(None), "an undefined SQNR (zero signal)"),
        (error(60.0, nonfinite=2), "2 elements that are NaN or infinite on one side"),
    ],
)
def test_decibels(found: None, text: str) -> None:
    assert phrases.decibels(found) == text


CHANGE = PassChange(
    after="edge",
    before="transform",
    method="forward",
    event=3,
    stage="transform",
    name="Wrong",
    digests=("a", "b"),
)


def blame(touched: Touched, *, narrowed: bool = False) -> str:
    guilty = GuiltyPass(change=replace(CHANGE, narrowed=narrowed), touched=touched)
    return wording.guilty_pass(guilty, RUNG, "edge", RUNG).text


def test_pass_is_named_with_what_it_touched_if_that_is_known() -> None:
    view = Node(name="view_1", op="call_function", target="aten.view.default")
    weight = Node(name="w", op="get_attr", target="w")
    start = "pass: Wrong of the stage transform changes the numbers"
    assert blame(Touched((view,), (), ())).startswith(f"{start} at view, leaves")
    assert blame(Touched((weight,), (), ())).startswith(f"{start} at w, leaves")
    assert blame(Touched((), (), ("gone",))).startswith(f"{start}, leaves")


def test_narrowing_pass_says_what_wraps() -> None:
    text = blame(Touched((), (), ()), narrowed=True)
    assert text.startswith("dtype: the pass Wrong narrows int64 to int32, and an input holds values beyond")


def test_misread_input_without_a_note_is_still_a_sentence() -> None:
    assert wording.misread_input((), RUNG).text.startswith(
        "input: an input is not contiguous; as given, the output has"
    )


def test_refusal_is_quoted() -> None:
    rung = Rung(name="htp-given", output=0, against_eager=None, against_previous=None, note="code 18")
    verdict = wording.refused_input(("x: its memory is odd",), rung)
    assert (verdict.culprit, verdict.kind) == ("x", "input")
    assert verdict.text.endswith("the runtime refuses it: code 18")


def test_program_without_a_delegate_names_the_first_reason() -> None:
    verdict = wording.not_delegated([TOPK])
    assert (verdict.kind, verdict.culprit, verdict.op) == ("graph", "topk", "aten.topk.default")
    assert verdict.text.endswith("topk: there is no builder for it")
    assert wording.not_delegated([]).text.endswith("every op stays on the CPU")


FAILURE = Failure(step="lower", error="it broke", stage="transform")
PAD = FailingNode(name="aten_pad", op="aten.pad.default", source="net.py:4")


def test_failure_names_the_pass_then_the_node_then_the_stage_then_the_step() -> None:
    broken = PassEvent(index=0, stage="export", name="DecomposeEinsum", error="KeyError: 'val'")
    by_pass = wording.failed(replace(FAILURE, node=PAD), (broken,))
    assert by_pass.culprit == "DecomposeEinsum"
    assert by_pass.text == (
        "lowering: the pass DecomposeEinsum of the stage export fails at aten.pad.default (net.py:4): "
        "it broke"
    )
    by_node = wording.failed(replace(FAILURE, node=PAD), ())
    assert (by_node.culprit, by_node.op) == ("aten_pad", "aten.pad.default")
    assert by_node.text.startswith("lowering: the stage transform fails at aten.pad.default (net.py:4)")
    assert wording.failed(FAILURE, ()).culprit == "transform"
    assert wording.failed(replace(FAILURE, stage=""), ()).culprit == "lower"


def test_failing_execution_names_what_stays_on_the_cpu() -> None:
    verdict = wording.failed(Failure(step="htp", error="missing kernel", hint="install it"), (), [TOPK, TOPK])
    assert (verdict.op, verdict.next_step) == ("aten.topk.default", "install it")
    assert "the step htp fails, with aten.topk.default on the CPU: missing kernel" in verdict.text


def test_failing_lowering_does_not_name_what_stays_on_the_cpu() -> None:
    assert "topk" not in wording.failed(FAILURE, (), [TOPK]).text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.982, "98%"),
        (-0.3, "−30%"),
        (-0.001, "0%"),
        (235.2, "23520%"),
        (-2352.4, "−2.4e5%"),
        (1e308, "1.0e310%"),
        (math.inf, "∞%"),
        (-math.inf, "−∞%"),
    ],
)
def test_shares_in_per_cent(share: float, text: str) -> None:
    assert phrases.percent(share) == text


@pytest.mark.parametrize(("value", "text"), [(-0.04, "0.0"), (-0.06, "−0.1"), (3.25, "3.2"), (0.0, "0.0")])
def test_there_is_no_minus_zero_and_a_minus_is_as_wide_as_a_plus(value: float, text: str) -> None:
    assert phrases.signed(value) == text


def test_factors_are_short() -> None:
    assert [phrases.in_times(f) for f in (3.2, 999_999.0, 2.5e6, math.inf)] == [
        "3 times",
        "999999 times",
        "2.5e6 times",
        "∞ times",
    ]


def test_numbers_of_things() -> None:
    assert [phrases.counted(number, "note") for number in (0, 1, 2)] == ["0 notes", "1 note", "2 notes"]


def test_a_failure_of_several_lines_makes_one() -> None:
    failure = Failure(step="lower", error="it broke\n  File x.py\nwith\tthis")
    assert wording.failed(failure, ()).text.endswith("fails: it broke File x.py with this")


def test_what_lies_between_two_rungs_is_named_by_both() -> None:
    text = wording.guilty_pass(None, replace(RUNG, name="edge"), "export", RUNG).text
    assert text.startswith("pass: something between the rungs export and edge changes the numbers")


def test_swapped_outputs_are_told_with_the_one_to_cast() -> None:
    found = Payload(
        method="forward",
        output=0,
        tensor="output 0",
        op="aten.topk.default",
        source="",
        detail="outputs 0 and 1 are swapped",
        wide=1,
    )
    assert wording.payload(found, RUNG).next_step.startswith("Cast output 1 to int32")
    assert wording.payload(dataclasses.replace(found, wide=None), RUNG).next_step.startswith("Cast it to")

"""Verdicts on seeded faults whose culprit is known: one for each kind, and what just is none."""

from __future__ import annotations

import math
from typing import get_args

import pytest
from msgspec.structs import replace

from qnndbg.analyze.touched import Touched
from qnndbg.analyze.verdict import (
    Evidence,
    GuiltyPass,
    Payload,
    empty_comparison,
    judge,
    sources,
    victims,
)
from qnndbg.analyze.wording import failed, not_delegated
from qnndbg.model.attribution import PassChange
from qnndbg.model.graph import Node, Origin
from qnndbg.model.recording import Failure
from qnndbg.model.result import Cause, Coverage, Rung, Verdict, VerdictKind
from tests.unit.evidence import (
    EXACT,
    error,
    evidence,
    half,
    ladder,
    layer,
    quantised,
    quantisers,
    source,
)

NOT_DUMPED = Coverage(compared=0, total=4, reasons={"not dumped": 4})
CHANGE = PassChange(
    after="export", before="edge", method="forward", event=3, stage="edge", name="Wrong", digests=("a", "b")
)
TOUCHED = Touched(
    made=(),
    changed=(
        Node(name="view", op="call_function", target="aten.view.default", origin=Origin(source="net.py:9")),
    ),
    gone=(),
)
PAYLOAD = Payload(
    method="forward",
    output=1,
    tensor="output 1",
    op="aten.topk.default",
    source="net.py:5",
    detail="it is odd",
)
GIVEN = ("htp-given", 3.0, 4.0)
NOTE = "x: its memory is laid out as channels_last"

FAULTS: dict[str, tuple[Evidence, VerdictKind, str]] = {
    "nothing": (evidence(quantised(64.1, EXACT, 80.0, 63.9)), "clean", ""),
    "the quantiser": (
        evidence(quantised(12.0, EXACT, 45.0, 12.0), sources=(quantisers(),)),
        "quantisation",
        "aten_conv2d_default@0",
    ),
    "a pass": (
        evidence(quantised(64.1, 55.0, 80.0, 54.0), changes=(GuiltyPass(change=CHANGE, touched=TOUCHED),)),
        "pass",
        "Wrong",
    ),
    "a pass that narrows": (
        evidence(
            quantised(64.1, 55.0, 80.0, 54.0),
            changes=(GuiltyPass(change=replace(CHANGE, narrowed=True), touched=TOUCHED),),
        ),
        "dtype",
        "Wrong",
    ),
    "a kernel": (
        evidence(quantised(64.1, EXACT, 20.0, 20.0), sources=(source(),)),
        "backend",
        "aten_hardswish_default@0",
    ),
    "a clipping that is left out": (
        evidence(quantised(64.1, EXACT, 20.0, 20.0), sources=(source("conv", cause="fused"),)),
        "quantisation",
        "aten_conv_default@0",
    ),
    "what half floats cannot hold": (
        evidence(half(2.0), precision="fp16", sources=(source("mul", cause="overflow"),)),
        "format",
        "aten_mul_default@0",
    ),
    "the net itself": (
        evidence(half(20.0), precision="fp16", sources=(source("log", cause="amplified"),)),
        "amplification",
        "aten_log_default@0",
    ),
    "an input that is misread": (
        evidence((*half(70.0), ladder(GIVEN)[1]), precision="fp16", input_notes=(NOTE,)),
        "input",
        "x",
    ),
    "an input that is refused": (
        evidence(
            (
                *half(70.0),
                Rung(
                    name="htp-given", output=0, against_eager=None, against_previous=None, note="bad strides"
                ),
            ),
            precision="fp16",
            input_notes=(NOTE,),
        ),
        "input",
        "x",
    ),
    "a payload": (evidence(half(2.0), precision="fp16", payloads=(PAYLOAD,)), "backend", "output 1"),
    "nothing compared": (
        evidence(quantised(64.0, EXACT, EXACT, 64.0), coverage=NOT_DUMPED),
        "incomplete",
        "",
    ),
}


@pytest.mark.parametrize(("found", "kind", "culprit"), FAULTS.values(), ids=FAULTS)
def test_fault_and_culprit(found: Evidence, kind: VerdictKind, culprit: str) -> None:
    verdict = judge(found)
    assert (verdict.kind, verdict.culprit) == (kind, culprit)
    assert verdict.text.startswith(f"{kind}: ")
    assert verdict.next_step.endswith(".")


def test_every_kind_has_a_case() -> None:
    judged = {kind for _, kind, _ in FAULTS.values()}
    others = {not_delegated(()).kind, failed(Failure(step="lower", error="no"), ()).kind}
    assert judged | others == set(get_args(VerdictKind))


INNOCENT: dict[str, Evidence] = {
    "rounding of float32 between graphs": evidence(quantised(64.1, 100.1, 80.0, 63.9)),
    "a quantised model of more than 15 dB": evidence(quantised(15.1, EXACT, 45.0, 15.1)),
    "an HTP of more than 30 dB": evidence(quantised(20.0, EXACT, 30.1, 19.0)),
    "an HTP of more than 40 dB in fp16": evidence(half(40.1), precision="fp16"),
    "an error that less than doubles": evidence(quantised(40.0, EXACT, 36.0, 34.1)),
    "an error that doubles and is inaudible": evidence(quantised(80.0, EXACT, 61.0, 60.9)),
    "inputs as they were given": evidence((*half(70.0), ladder(("htp-given", 70.0, EXACT))[1])),
    "no eager model to compare the given inputs with": evidence(
        (
            *half(70.0),
            Rung(name="htp-given", output=0, against_eager=None, against_previous=error(EXACT)),
        )
    ),
    "sources of an error that does not matter": evidence(
        quantised(64.1, EXACT, 80.0, 63.9), sources=(source(),)
    ),
}


@pytest.mark.parametrize("found", INNOCENT.values(), ids=INNOCENT)
def test_what_is_no_fault(found: Evidence) -> None:
    assert judge(found).kind == "clean"


GUILTY: dict[str, tuple[Evidence, VerdictKind]] = {
    "between graphs": (evidence(quantised(64.1, 99.9, 80.0, 63.9)), "pass"),
    "the quantised model": (evidence(quantised(14.9, EXACT, 45.0, 14.9)), "quantisation"),
    "the HTP": (evidence(quantised(20.0, EXACT, 29.9, 19.0)), "backend"),
    "fp16": (evidence(half(39.9), precision="fp16"), "backend"),
    "an error that more than doubles": (evidence(quantised(40.0, EXACT, 36.0, 33.9)), "backend"),
    "two builds that differ": (
        evidence(ladder(("reference", EXACT, EXACT), ("htp-tapped", 70.0, 70.0), ("htp", 9.0, 9.0))),
        "backend",
    ),
}


@pytest.mark.parametrize(("found", "kind"), GUILTY.values(), ids=GUILTY)
def test_the_other_side_of_each_limit(found: Evidence, kind: VerdictKind) -> None:
    verdict = judge(found)
    assert (verdict.kind, verdict.culprit) == (kind, "")


def test_a_weight_that_is_lost_is_looked_at_first_where_builds_differ() -> None:
    rungs = ladder(("reference", EXACT, EXACT), ("htp-tapped", 70.0, 70.0), ("htp", 9.0, 9.0))
    lost = layer("up", local=error(10.0, rms=1.0), accumulated=None, floor=0.1)
    found = evidence(rungs, layers=(replace(lost, tensor="x@0"), replace(lost, given="constant")))
    assert judge(found).next_step == (
        "Rescale the constant aten_up_default@0 (module block.up, net.py:7) first, which the HTP does not "
        "hold as it is; then take ops off the HTP one after the other (skip_node_op_set) until the two "
        "builds agree."
    )


def test_an_overflow_is_blamed_where_the_production_build_makes_something_else_of_it() -> None:
    rungs = ladder(("reference", EXACT, EXACT), ("htp-tapped", 48.0, 48.0), ("htp", 2.5, 2.5))
    over = source("linear", cause="overflow", detail="values reach 7e+04, and half floats end at 65504")
    verdict = judge(evidence(rungs, precision="fp16", sources=(over,)))
    assert (verdict.kind, verdict.culprit) == ("format", "aten_linear_default@0")
    assert "values reach 7e+04, and half floats end at 65504; the production build" in verdict.text
    assert verdict.next_step.startswith("Rescale the values of linear")
    kernel = judge(evidence(rungs, precision="fp16", sources=(source("linear"),)))
    assert (kernel.kind, kernel.culprit) == ("backend", "")


def test_a_share_that_explains_nothing_is_not_said() -> None:
    pow_ = source("pow", cause="flushed", share=-0.05, explained=-0.07, measured=False)
    verdict = judge(evidence(half(14.2), precision="fp16", sources=(pow_,)))
    assert "as far as can be told, the error of the output is made at pow" in verdict.text
    assert verdict.share is None


@pytest.mark.parametrize(("final", "kind"), [(17.9, "clean"), (11.0, "amplification")])
def test_an_htp_that_rounds_otherwise_is_no_worse_than_the_model(final: float, kind: VerdictKind) -> None:
    found = source("quantize", cause="amplified", detail="its error is rounding")
    verdict = judge(evidence(quantised(18.0, EXACT, 19.6, final), sources=(found,)))
    assert verdict.kind == kind
    assert ("no step is at fault" in verdict.text) == (kind == "clean")


def test_whole_verdict_on_a_kernel() -> None:
    found = evidence(quantised(64.1, EXACT, 20.0, 19.9), sources=(source(),))
    assert judge(found) == Verdict(
        kind="backend",
        text="backend: 90% of the error of the output is made at hardswish (module block.hardswish, "
        "net.py:7): its error is 70 times what rounding explains; the HTP has 20.0 dB against the same "
        "program on the CPU, and the output has 19.9 dB against eager",
        culprit="aten_hardswish_default@0",
        next_step="Write hardswish in other ops, or keep it off the HTP (skip_node_op_set), "
        "if the CPU has it.",
        op="aten.hardswish.default",
        share=0.9,
        confidence="measured",
    )


def test_a_share_that_was_only_estimated_is_said_to_be() -> None:
    found = evidence(half(2.0), precision="fp16", sources=(source(measured=False),))
    assert judge(found).confidence == "estimated"


def test_one_rounding_that_fell_the_other_way_is_no_fault() -> None:
    (eager, edge, htp) = ladder(("edge", 45.0, 60.0), ("htp", 45.0, 70.0))
    assert edge.against_previous is not None
    for lsb, kind in ((1.0, "clean"), (2.0, "pass")):
        rung = replace(edge, against_previous=replace(edge.against_previous, max_lsb=lsb))
        assert judge(evidence((eager, rung, htp))).kind == kind


def test_the_step_that_costs_most_is_blamed_where_two_are_at_fault() -> None:
    both = (source(), quantisers())
    assert judge(evidence(quantised(10.0, EXACT, 15.0, 9.0), sources=both)).kind == "quantisation"
    assert judge(evidence(quantised(14.0, EXACT, 10.0, 9.0), sources=both)).kind == "backend"


def test_an_input_is_not_blamed_for_what_the_htp_does_anyway() -> None:
    rungs = (*quantised(64.1, EXACT, 20.0, 19.9), *ladder(("htp-given", 19.9, EXACT))[1:])
    assert judge(evidence(rungs, sources=(source(),))).kind == "backend"


def test_the_worst_output_speaks() -> None:
    rungs = (*half(70.0), *(replace(rung, output=1) for rung in half(15.0)))
    found = (source("relu"), source("log", output=1))
    verdict = judge(evidence(rungs, precision="fp16", sources=found))
    assert verdict.culprit == "aten_log_default@0"
    assert verdict.text.endswith("output 1 has 15.0 dB against eager")


def test_sources_of_other_methods_and_samples_are_left_alone() -> None:
    rungs = (*half(70.0), *(replace(rung, method="decode", sample=1) for rung in half(15.0)))
    found = (source("relu"), source("exp", method="decode"), source("log", method="decode", sample=1))
    verdict = judge(evidence(rungs, precision="fp16", sources=found))
    assert verdict.culprit == "aten_log_default@0"
    assert "the output of decode in sample 1" in verdict.text


@pytest.mark.parametrize(("kept", "kind"), [(75.0, "clean"), (39.9, "pass")])
def test_a_pass_may_cast_to_half_floats_where_weights_alone_are_quantised(kept: float, kind: str) -> None:
    rungs = ladder(("eager", 200.0, 200.0), ("transform", kept, kept), ("htp", kept, 200.0))
    assert judge(evidence(rungs, precision="fp16a8w")).kind == kind
    assert judge(evidence(rungs, precision="fp16")).kind == "pass"


def test_a_guilty_pass_between_other_rungs_is_left_alone() -> None:
    other = GuiltyPass(change=replace(CHANGE, before="transform"), touched=TOUCHED)
    verdict = judge(evidence(quantised(64.1, 55.0, 80.0, 54.0), changes=(other,)))
    assert (verdict.kind, verdict.culprit) == ("pass", "")
    assert "the rungs export and edge" in verdict.text


def test_layers_without_an_output_are_incomplete_and_never_clean() -> None:
    failed_ = Rung(name="htp", output=0, against_eager=None, against_previous=None, note="crashed")
    assert judge(evidence((*ladder(("edge", EXACT, EXACT)), failed_))).kind == "incomplete"


def test_nothing_compared_says_of_how_many() -> None:
    verdict = judge(evidence(half(70.0), coverage=NOT_DUMPED))
    assert verdict.text == "incomplete: none of 4 QNN tensors could be compared"


def test_no_comparison_at_all() -> None:
    assert empty_comparison().verdict.kind == "incomplete"
    assert empty_comparison().coverage.share is None


def test_errors_beyond_three_floors_make_sources_and_inherited_ones_victims() -> None:
    def of(name: str, local: float, accumulated: float, floor: float | None = 0.1):  # type: ignore[no-untyped-def]
        errors = {
            "local": error(40.0 if local else EXACT, rms=local),
            "accumulated": error(40.0 if accumulated else EXACT, rms=accumulated),
        }
        return layer(name, floor=floor, **errors)

    within, beyond, worse = of("a", 0.3, 0.3), of("b", 0.31, 0.31), of("c", 5.0, 5.0)
    inherits, unknown = of("d", 0.1, 0.4), of("e", 5.0, 5.0, None)
    everyone = (within, beyond, worse, inherits, unknown)
    assert sources(everyone) == (worse, beyond)
    assert victims(everyone) == (inherits,)


def test_an_error_where_rounding_explains_none_is_infinite() -> None:
    moved = layer("view", local=error(90.0, rms=0.1), accumulated=error(90.0, rms=0.1), floor=0.0)
    lost = layer("log", local=error(None, nonfinite=2), accumulated=error(None, nonfinite=2), floor=0.5)
    equal = layer("cat", local=error(EXACT), accumulated=error(EXACT), floor=0.0)
    assert (moved.excess, lost.excess, equal.excess) == (math.inf, math.inf, 0.0)
    assert sources((equal, moved, lost)) == (moved, lost)


def test_a_layer_that_reads_an_overflow_inherits_its_error() -> None:
    made = layer("div", local=error(3.0, rms=9.0), accumulated=error(3.0, rms=9.0), floor=0.1)
    reads = replace(made, overflowed=True)
    assert (sources((made,)), victims((made,))) == ((made,), ())
    assert (sources((reads,)), victims((reads,))) == ((), (reads,))


def test_a_clean_verdict_says_why_layers_that_err_do_not_matter() -> None:
    erring = layer("gelu", local=error(40.0, rms=5.0), accumulated=error(40.0, rms=5.0), floor=0.1)
    sound = evidence(quantised(64.1, EXACT, 80.0, 63.9))
    assert judge(sound).next_step.startswith("Nothing to fix; record other inputs")
    for count, said in ((1, "1 layer"), (2, "2 layers")):
        found = judge(evidence(sound.ladder, layers=(erring,) * count))
        assert found.kind == "clean"
        assert found.next_step.startswith(
            f"Nothing to fix: the errors of {said} (▲) are too small at the output to matter; record"
        )


def test_the_op_that_magnifies_is_what_to_rewrite() -> None:
    found = source(
        cause="amplified", detail="its error is rounding, which sub magnifies 9 times", magnified_by="sub"
    )
    verdict = judge(evidence(half(2.0), precision="fp16", sources=(found,)))
    assert (verdict.kind, verdict.op) == ("amplification", "aten.hardswish.default")
    assert "which sub magnifies 9 times" in verdict.text
    assert verdict.next_step == "Rewrite sub, so that no small difference of large numbers decides."


def test_in_half_floats_the_htp_has_no_other_error_than_against_eager() -> None:
    verdict = judge(evidence(half(2.0), precision="fp16", sources=(source(),)))
    assert verdict.text.endswith("rounding explains; the output has 2.0 dB against eager")


@pytest.mark.parametrize(
    ("cause", "kind", "culprit"),
    [
        ("rounding", "quantisation", "aten_conv2d_default@0"),
        ("kernel", "backend", "aten_hardswish_default@0"),
    ],
)
def test_an_htp_that_only_rounds_as_coarse_encodings_say_is_not_to_blame(
    cause: Cause, kind: VerdictKind, culprit: str
) -> None:
    rungs = quantised(9.0, EXACT, 7.0, 6.0)
    found = evidence(rungs, sources=(source(cause=cause), quantisers("conv2d")))
    verdict = judge(found)
    assert (verdict.kind, verdict.culprit) == (kind, culprit)

"""Which build a verdict looks into, and values too small for half floats."""

from __future__ import annotations

from dataclasses import replace as replace_dataclass

import pytest
from msgspec.structs import replace

from qnndbg.analyze.causes import sources_of
from qnndbg.analyze.verdict import Evidence, judge
from qnndbg.model.attribution import Attribution, Effect
from qnndbg.model.result import Coverage, ErrorMetrics, Rung

EFFECT = Effect(
    kind="op",
    name="aten_div_tensor@0",
    node="aten_div_tensor",
    partition=0,
    op="aten.div.Tensor",
    error=1.0,
    floor=0.9,
    signal=1.0,
    linear=1.0,
    exact=1.0,
    half=True,
)


def attribution(effect: Effect) -> Attribution:
    return Attribution(step="backend", method="forward", error=0.5, signal=1.0, effects=(effect,))


def error(sqnr_db: float) -> ErrorMetrics:
    return ErrorMetrics(
        sqnr_db=sqnr_db,
        max_abs=1.0,
        mean_abs=1.0,
        relative_l2=1.0,
        cosine=0.0,
        max_lsb=None,
        max_ulp=None,
        mismatched=1,
        nonfinite=0,
        elements=1,
    )


def rung(name: str, against_previous: float, against_eager: float | None = None) -> Rung:
    eager = error(against_previous if against_eager is None else against_eager)
    return Rung(name=name, output=0, against_eager=eager, against_previous=error(against_previous))


def evidence(tapped: float, htp: float) -> Evidence:
    return Evidence(
        ladder=(rung("reference", 150.0), rung("htp-tapped", tapped), rung("htp", htp)),
        layers=(),
        coverage=Coverage(compared=1, total=1, reasons={}),
        precision="fp16",
        sources=sources_of(attribution(replace(EFFECT, peak=1e6))),
    )


def test_signal_that_half_floats_lose_is_flushed_though_rounding_explains_the_error() -> None:
    (lost,), (kept,) = (sources_of(attribution(replace(EFFECT, faint=share))) for share in (0.9, 0.1))

    assert (lost.cause, kept.cause) == ("flushed", "rounding")


def test_a_place_is_named_if_the_build_with_the_dump_errs_as_well() -> None:
    verdict = judge(evidence(tapped=9.0, htp=-10.0))

    assert (verdict.kind, verdict.culprit) == ("format", "aten_div_tensor@0")


def test_of_places_only_an_overflow_is_named_if_only_the_production_build_errs() -> None:
    verdict = judge(evidence(tapped=70.0, htp=-10.0))
    rounded = replace_dataclass(evidence(tapped=70.0, htp=-10.0), sources=sources_of(attribution(EFFECT)))

    assert (verdict.kind, verdict.culprit) == ("format", "aten_div_tensor@0")
    assert (judge(rounded).kind, judge(rounded).culprit) == ("backend", "")


@pytest.mark.parametrize(
    ("eager", "kind"),
    [(42.0, "quantisation"), (3.0, "format")],
    ids=["better than its model", "as bad as its model"],
)
def test_an_htp_that_escapes_a_clipping_is_not_to_blame(eager: float, kind: str) -> None:
    ladder = (
        rung("quantized", 2.5),
        rung("reference", 200.0, against_eager=2.5),
        rung("htp-tapped", -6.0, against_eager=eager),
        rung("htp", 200.0, against_eager=eager),
    )
    found = replace_dataclass(evidence(9.0, 9.0), ladder=ladder, precision="8a8w")

    assert judge(found).kind == kind


def test_a_fused_op_is_said_to_be_fused() -> None:
    (source,) = sources_of(attribution(replace(EFFECT, floor=0.01, half=False, fused=True)))

    assert (source.cause, "fuses" in source.detail) == ("fused", True)

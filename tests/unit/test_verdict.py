"""Verdicts on seeded faults whose culprit is known."""

from __future__ import annotations

import math

import pytest

from qnndbg.analyze.verdict import empty_comparison, excess, judge, lsb_limit, short_op, sources, victims
from qnndbg.model.result import MAX_SQNR_DB, Coverage, ErrorMetrics, LayerResult, Rung, Verdict

EXACT = MAX_SQNR_DB
FULL = Coverage(compared=3, total=3, reasons={})


def error(sqnr_db: float | None, *, lsb: float | None = None, nonfinite: int = 0) -> ErrorMetrics:
    equal = sqnr_db == EXACT and not nonfinite
    return ErrorMetrics(
        sqnr_db=sqnr_db,
        max_abs=0.0 if equal else 1.0,
        mean_abs=None,
        relative_l2=None,
        cosine=None,
        max_lsb=lsb,
        max_ulp=None,
        mismatched=0 if equal else 5,
        nonfinite=nonfinite,
        elements=10,
    )


def layer(name: str, local: ErrorMetrics | None, accumulated: ErrorMetrics | None = None) -> LayerResult:
    return LayerResult(
        tensor=f"aten_{name}_default@0",
        method="forward",
        partition=0,
        op=f"aten.{name}.default",
        qnn_op="",
        module=f"block.{name}",
        source="net.py:7",
        created_by="",
        shape=(10,),
        dtype="UFIXED_POINT_8",
        reference_dtype="float32",
        encoding=None,
        reference_encoding=None,
        accumulated=accumulated or local,
        local=local,
        reason="",
    )


def ladder(*steps: tuple[str, float, float], output: int = 0, lsb: float | None = None) -> tuple[Rung, ...]:
    """Rungs of name, dB against eager and dB against the rung before."""
    first = Rung(name="eager", output=output, against_eager=error(EXACT), against_previous=None)
    rest = (
        Rung(name=name, output=output, against_eager=error(eager), against_previous=error(previous, lsb=lsb))
        for name, eager, previous in steps
    )
    return (first, *rest)


def quantised(quantised: float, edge: float, htp: float, final: float) -> tuple[Rung, ...]:
    """A quantised ladder from what each step leaves of the step before, and the end against eager."""
    return ladder(
        ("quantized", quantised, quantised),
        ("edge", quantised, edge),
        ("reference", quantised, EXACT),
        ("htp-tapped", final, htp),
        ("htp", final, EXACT),
    )


SMALL = tuple(layer(name, error(95.0, lsb=1.0)) for name in ("convolution", "add", "linear"))
HARDSWISH = layer("hardswish", error(41.0, lsb=2519.0))


def test_a_layer_that_stands_out_makes_it_the_backend() -> None:
    verdict = judge(quantised(64.1, EXACT, 49.0, 48.9), (*SMALL, HARDSWISH), FULL, precision="16a8w")
    assert verdict == Verdict(
        kind="backend",
        text="backend: hardswish (aten_hardswish_default@0, module block.hardswish, net.py:7) is off by "
        "2519 LSB on its own inputs; the output has 48.9 dB against eager",
        culprit="aten_hardswish_default@0",
        next_step="Keep hardswish off the HTP or write it in other ops, and record again.",
    )


def test_small_local_errors_and_a_good_output_are_clean() -> None:
    verdict = judge(quantised(64.1, EXACT, 80.0, 63.9), SMALL, FULL, precision="16a8w")
    assert (verdict.kind, verdict.culprit) == ("clean", "")
    assert "63.9 dB" in verdict.text


def test_rounding_of_float32_between_graphs_is_no_fault() -> None:
    assert judge(quantised(64.1, 131.0, 80.0, 63.9), SMALL, FULL, precision="16a8w").kind == "clean"


def test_one_rounding_that_fell_the_other_way_is_no_fault() -> None:
    rungs = ladder(("quantized", 45.0, 45.0), ("edge", 45.0, 60.0), ("htp", 45.0, 70.0), lsb=1.0)
    assert judge(rungs, SMALL, FULL, precision="8a8w").kind == "clean"


def test_a_pass_that_changes_numbers_is_to_blame_even_under_a_good_output() -> None:
    verdict = judge(quantised(64.1, 55.0, 80.0, 54.0), SMALL, FULL, precision="16a8w")
    assert verdict.kind == "pass"
    assert "export or to-edge passes" in verdict.text
    assert "55.0 dB" in verdict.text


def test_the_preprocess_passes_are_told_from_the_others() -> None:
    rungs = ladder(("edge", EXACT, EXACT), ("reference", 20.0, 20.0), ("htp", 20.0, 75.0))
    verdict = judge(rungs, (), FULL, precision="fp16")
    assert verdict.kind == "pass"
    assert "preprocess passes" in verdict.text


@pytest.mark.parametrize(("precision", "finer"), [("8a8w", "16a8w"), ("16a4w", "fp16")])
def test_a_bad_quantised_model_that_the_htp_agrees_with_is_quantisation(precision: str, finer: str) -> None:
    verdict = judge(quantised(12.0, EXACT, 45.0, 12.0), SMALL, FULL, precision=precision)
    assert verdict.kind == "quantisation"
    assert f"--precision {finer}" in verdict.next_step


def test_the_step_that_costs_most_is_blamed_where_two_are_at_fault() -> None:
    layers = (*SMALL, HARDSWISH)
    assert judge(quantised(20.0, EXACT, 25.0, 18.0), layers, FULL, precision="8a8w").kind == "quantisation"
    assert judge(quantised(25.0, EXACT, 20.0, 18.0), layers, FULL, precision="8a8w").kind == "backend"


def test_steps_that_are_each_within_limits_and_not_together_blame_the_largest() -> None:
    verdict = judge(quantised(32.0, EXACT, 31.0, 28.0), SMALL, FULL, precision="8a8w")
    assert (verdict.kind, verdict.culprit) == ("backend", "")


def test_fp16_is_held_to_more() -> None:
    rungs = ladder(("edge", EXACT, EXACT), ("htp", 35.0, 35.0))
    assert judge(rungs, (), FULL, precision="fp16").kind == "backend"
    assert judge(rungs, (), FULL, precision="8a8w").kind == "clean"


def test_the_lowest_local_sqnr_is_the_culprit_in_fp16() -> None:
    layers = (layer("relu", error(70.0)), layer("sub", error(30.0)), layer("mul", error(0.2)))
    rungs = ladder(("edge", EXACT, EXACT), ("htp", 2.6, 2.6))
    verdict = judge(rungs, layers, FULL, precision="fp16")
    assert verdict.culprit == "aten_mul_default@0"
    assert "has 0.2 dB on its own inputs (and 1 more like it)" in verdict.text
    assert "65504" in verdict.next_step


def test_the_worst_output_speaks() -> None:
    rungs = (
        *ladder(("htp", 70.0, 70.0), output=0),
        *ladder(("htp", 15.0, 15.0), output=1),
    )
    assert "output 1 has 15.0 dB" in judge(rungs, (), FULL, precision="8a8w").text


def test_nothing_compared_is_incomplete_and_never_clean() -> None:
    coverage = Coverage(compared=0, total=4, reasons={"not dumped": 4})
    verdict = judge(quantised(64.0, EXACT, EXACT, 64.0), (), coverage, precision="16a8w")
    assert verdict.kind == "incomplete"
    assert "none of 4 QNN tensors" in verdict.text


def test_layers_without_an_output_are_incomplete_and_never_clean() -> None:
    failed = Rung(name="htp", output=0, against_eager=None, against_previous=None, note="crashed")
    verdict = judge((*ladder(("edge", EXACT, EXACT)), failed), SMALL, FULL, precision="8a8w")
    assert verdict.kind == "incomplete"


def test_a_layer_is_blamed_where_no_output_could_be_compared() -> None:
    verdict = judge((), (*SMALL, HARDSWISH), FULL, precision="8a8w")
    assert verdict.culprit == "aten_hardswish_default@0"
    assert "could not be compared" in verdict.text


def test_no_comparison_at_all() -> None:
    assert empty_comparison().verdict.kind == "incomplete"
    assert empty_comparison().coverage.share is None


def test_elements_that_turn_non_finite_outrank_everything() -> None:
    lost = layer("log", error(EXACT, lsb=0.0, nonfinite=2))
    assert sources((*SMALL, HARDSWISH, lost)) == (lost, HARDSWISH)
    assert "NaN or infinite" in judge((), (lost,), FULL, precision="8a8w").text


def test_an_error_without_a_signal_stands_out() -> None:
    assert sources((layer("relu", error(None)),)) != ()


def test_standing_out_is_relative_to_the_network() -> None:
    coarse = tuple(layer(name, error(60.0, lsb=9.0)) for name in ("a", "b", "c"))
    assert lsb_limit(coarse) == 90.0
    assert sources(coarse) == ()
    assert lsb_limit(SMALL) == 10.0
    assert sources((*SMALL, layer("hardswish", error(60.0, lsb=9.0)))) == ()
    exact = tuple(layer(name, error(EXACT, lsb=0.0)) for name in ("a", "b", "c"))
    assert [found.op for found in sources((*exact, layer("d", error(60.0, lsb=4.5))))] == ["aten.d.default"]


def test_inherited_errors_make_victims_and_no_sources() -> None:
    later = layer("add", error(95.0, lsb=1.0), error(48.0, lsb=700.0))
    layers = (*SMALL, HARDSWISH, later)
    assert (sources(layers), victims(layers)) == ((HARDSWISH,), (later,))


def test_excess_is_in_db_beyond_the_limit() -> None:
    assert excess(error(50.0, lsb=100.0), 10.0) == pytest.approx(20.0)
    assert excess(error(15.0), 10.0) == 25.0
    assert excess(error(EXACT, lsb=0.0), 10.0) == excess(None, 10.0) == -math.inf


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
    assert short_op(op) == short

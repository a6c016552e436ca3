"""QD1xx: sources from the numbers that cause them, and layers beyond their floor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qnndbg.analyze.causes import sources_of
from qnndbg.analyze.lost import LostParts
from qnndbg.analyze.rules import find
from qnndbg.analyze.verdict import Payload
from qnndbg.model.attribution import Effect
from qnndbg.model.result import Severity
from tests.unit.evidence import EXACT, attribution, effect, error, half, ladder, layer, quantised, rounding
from tests.unit.rules.cases import SOUND, WRONG, Case, Made, check_fires, check_misses

HALF = effect(half=True)
MUL = "aten_mul_tensor@0"
CLIPPING = quantised(model=10.0, edge=EXACT, htp=EXACT, final=10.0)
"""A ladder on which the quantiser makes the output wrong."""


def backend(found: Effect, ladder: Any = WRONG) -> Made:
    return Made(ladder=ladder, evidence={"sources": sources_of(attribution(found))})


def quantiser(ladder: Any = CLIPPING, **fields: Any) -> Made:
    made = effect(rounding=rounding(**fields))
    sources = sources_of(attribution(made, step="quantisation"))
    return Made(ladder=ladder, evidence={"sources": sources, "precision": "8a8w"})


def by_cause(rule: str, fires: Made, misses: Made, about: str = "") -> Case:
    return Case(rule=rule, severity="error", where=MUL, fires=fires, misses=misses, about=about)


def layers(**fields: Any) -> Made:
    equal = error(EXACT)
    made = layer("mul", **{"local": equal, "accumulated": equal, "floor": 0.1, **fields})
    return Made(evidence={"layers": (made,)})


def constant(rms: float) -> Made:
    """A constant that the HTP holds with that error, of which rounding explains 0.1."""
    made = layer("mul", local=error(10.0, rms=rms), accumulated=None, floor=0.1)
    return Made(evidence={"layers": (replace(made, given="constant"),)})


CONSTANT = replace(HALF, kind="constant", node=MUL)
INPUT = replace(HALF, kind="input", node=MUL)
OTHER = effect(kind="constant", node=MUL, change="its builder gives QNN other numbers")
SUM = replace(HALF, op="aten.cumsum.default", error=0.04)
LOST = LostParts(method="forward", sample=0, output=1, axis=1, lost=2, parts=10)
CASES = [
    by_cause("QD101", backend(replace(HALF, peak=65505.0)), backend(replace(HALF, peak=65504.0))),
    by_cause("QD102", backend(replace(CONSTANT, flushed=0.001)), backend(CONSTANT)),
    by_cause("QD103", backend(effect(error=0.031)), backend(effect(error=0.03))),
    Case(
        rule="QD103",
        about="without an effect",
        severity="note",
        where="aten_mul_default@0",
        fires=layers(local=error(30.0, rms=0.31)),
        misses=layers(local=error(30.0, rms=0.3)),
    ),
    by_cause("QD104", quantiser(clipped_energy=0.51), quantiser(clipped_energy=0.5)),
    by_cause("QD105", quantiser(range_used=0.49), quantiser(range_used=0.5)),
    by_cause("QD106", quantiser(spread=8.1, channels=4), quantiser(spread=8.0, channels=4)),
    by_cause("QD106", quantiser(spread=9.0, channels=2), quantiser(spread=9.0, channels=1), "one channel"),
    by_cause("QD107", backend(effect(error=4.9e-4)), backend(effect(error=0.031))),
    Case(
        rule="QD107",
        about="that is not magnified",
        severity="note",
        where=MUL,
        fires=backend(effect(error=0.03)),
        misses=backend(effect(error=0.031)),
    ),
    by_cause("QD108", backend(replace(HALF, linear=0.09)), backend(replace(HALF, linear=0.1))),
    by_cause("QD109", backend(INPUT), backend(replace(INPUT, flushed=0.1))),
    by_cause("QD109", quantiser(), quantiser(clipped_energy=0.9), "few bits"),
    by_cause("QD110", backend(replace(SUM, stagnates=True)), backend(SUM)),
    by_cause("QD111", backend(replace(HALF, integers=True)), backend(effect(integers=True))),
    Case(
        rule="QD112",
        severity="note",
        where="aten_mul_default@0",
        fires=layers(local=error(None, nonfinite=1)),
        misses=layers(local=error(3.0), accumulated=error(None, nonfinite=1)),
    ),
    by_cause("QD102", backend(replace(HALF, faint=0.51)), backend(replace(HALF, faint=0.5)), "signal"),
    by_cause("QD113", backend(effect(fused=True)), backend(effect(error=0.031)), "that makes an error"),
    Case(
        rule="QD113",
        severity="note",
        where="aten_mul_default@0",
        fires=Made(
            evidence={
                "layers": (
                    replace(layer("mul", local=error(10.0), accumulated=None, floor=None), fused=True),
                )
            }
        ),
        misses=layers(local=error(10.0), floor=None),
    ),
    by_cause("QD114", backend(OTHER), backend(replace(OTHER, change="")), "that its builder changes"),
    Case(
        rule="QD115",
        severity="note",
        where="output 1",
        fires=Made(evidence={"lost": (LOST,)}),
        misses=Made(),
    ),
    Case(
        rule="QD114",
        about="with little effect",
        severity="note",
        where="aten_mul_default@0",
        fires=constant(rms=0.31),
        misses=constant(rms=0.29),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_it_fires(case: Case, tmp_path: Path) -> None:
    check_fires(case, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_near_miss_does_not(case: Case, tmp_path: Path) -> None:
    check_misses(case, tmp_path)


def test_a_fused_layer_that_is_a_source_is_told_of_once(tmp_path: Path) -> None:
    sources = sources_of(attribution(effect(fused=True, name="aten_mul_default@0")))
    fused = replace(layer("mul", local=error(10.0), accumulated=None, floor=None), fused=True)
    made = Made(ladder=WRONG, evidence={"sources": sources, "layers": (fused,)})
    check_fires(
        Case(rule="QD113", severity="error", where="aten_mul_default@0", fires=made, misses=made), tmp_path
    )


@pytest.mark.parametrize(
    ("share", "ladder", "severity"),
    [(0.2, WRONG, "error"), (0.19, WRONG, "note"), (0.9, SOUND, "note"), (0.9, half(39.9), "error")],
)
def test_a_source_is_an_error_if_it_makes_a_fifth_of_a_wrong_output(
    share: float, ladder: Any, severity: str, tmp_path: Path
) -> None:
    made = backend(replace(HALF, peak=1e6, exact=share, linear=share), ladder)
    case = Case(rule="QD101", severity=severity, where=MUL, fires=made, misses=made)  # type: ignore[arg-type]
    check_fires(case, tmp_path)


OVERFLOW = sources_of(attribution(replace(HALF, peak=1e6, exact=0.9)))
OUTPUT_1 = tuple(replace(source, output=1) for source in OVERFLOW)
ONLY_BUILT = ladder(("reference", EXACT, EXACT), ("htp-tapped", 80.0, 80.0), ("htp", 20.0, 20.0))
SWAPPED = Payload(method="forward", output=0, tensor="topk@0", op="aten.topk.default", source="", detail="")


@pytest.mark.parametrize(
    ("made", "severity"),
    [
        pytest.param(
            Made(ladder=(*SOUND, *half(20.0, output=1)), evidence={"sources": OVERFLOW + OUTPUT_1}),
            "error",
            id="a sound output does not hide the wrong one",
        ),
        pytest.param(
            Made(ladder=ONLY_BUILT, evidence={"sources": OVERFLOW}),
            "note",
            id="sources are of the build that dumps",
        ),
        pytest.param(
            Made(ladder=WRONG, evidence={"sources": OVERFLOW, "payloads": (SWAPPED,)}),
            "note",
            id="what is handed out is something else",
        ),
    ],
)
def test_a_source_is_an_error_where_it_makes_the_error(
    made: Made, severity: Severity, tmp_path: Path
) -> None:
    check_fires(Case(rule="QD101", severity=severity, where=MUL, fires=made, misses=made), tmp_path)


def test_the_evidence_names_the_sample(tmp_path: Path) -> None:
    sources = tuple(replace(source, sample=2) for source in OVERFLOW)
    made = Made(ladder=half(20.0, sample=2), evidence={"sources": sources})
    (finding,) = (f for f in find(made.context(tmp_path)) if f.rule == "QD101")
    assert finding.evidence == "90.0% of the error of output 0 in sample 2 in the step backend"

"""Each cause, from numbers that make it true and from numbers that just do not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from qnndbg.analyze.causes import sources_of
from qnndbg.model.attribution import Effect
from qnndbg.model.result import Source
from tests.unit.evidence import attribution, effect, rounding


def cause_of(found: Effect, **fields: Any) -> str:
    return only(found, **fields).cause


def only(found: Effect, **fields: Any) -> Source:
    (source,) = sources_of(attribution(found, **fields))
    return source


QUANTISER = {"step": "quantisation"}
HALF = effect(half=True)
MAGNIFIED = {"error": 0.0001, "floor": 0.0001}
"""With half of an output's relative error of 0.01, the net magnifies it 50 times."""

BACKEND: dict[str, tuple[str, Effect]] = {
    "an op four times beyond its floor": ("kernel", effect(error=0.04)),
    "an op within three times of its floor": ("rounding", effect(error=0.029)),
    "an op that may not err at all": ("kernel", effect(floor=0.0)),
    "an op that is not clipped where it is fused": ("fused", effect(error=2.0, fused=True)),
    "beyond the largest half float": ("overflow", replace(HALF, peak=65505.0, error=1e4)),
    "at the largest half float": ("kernel", replace(HALF, peak=65504.0, error=1e4)),
    "as large in a format that holds it": ("kernel", effect(peak=65505.0, error=1e4)),
    "a constant beyond the largest half float": ("overflow", replace(HALF, kind="constant", peak=1e6)),
    "a constant that becomes zero": ("flushed", replace(HALF, kind="constant", flushed=0.25)),
    "an input of more digits": ("precision", replace(HALF, kind="input", peak=2049.0)),
    "a sum of much that is little": (
        "stagnation",
        replace(HALF, op="aten.cumsum.default", stagnates=True, error=0.04),
    ),
    "a sum within its floor": ("rounding", replace(HALF, op="aten.cumsum.default", stagnates=True)),
    "a sum that loses nothing": ("kernel", replace(HALF, op="aten.cumsum.default", error=0.04)),
    "another op over much that is little": ("kernel", replace(HALF, stagnates=True, error=0.04)),
    "whole numbers in half floats": ("integers", replace(HALF, integers=True)),
    "whole numbers in integers": ("rounding", effect(integers=True)),
    "a slope that explains a tenth": ("flipped", replace(HALF, linear=0.05)),
    "a slope that explains a half": ("rounding", replace(HALF, linear=0.25)),
    "no slope": ("flipped", replace(HALF, linear=None)),
    "rounding that is magnified fifty times": ("amplified", effect(**MAGNIFIED)),
    "a state that is read with another start value": ("state", effect(error=0.04, state="cache")),
    "a state that is read as it is": ("rounding", effect(state="cache")),
    "one element far beyond its floor": ("kernel", effect(peak_error=0.7, peak_floor=0.1)),
    "one element near its floor": ("rounding", effect(peak_error=0.5, peak_floor=0.1)),
}

ENCODINGS: dict[str, tuple[str, Effect]] = {
    "most of the error is clipped": ("clipped", effect(rounding=rounding(clipped_energy=0.6))),
    "some of the error is clipped": ("few bits", effect(rounding=rounding(clipped_energy=0.4))),
    "a weight that is clipped": (
        "few bits",
        effect(kind="constant", rounding=rounding(clipped_energy=0.6)),
    ),
    "a third of the range": ("wide range", effect(rounding=rounding(range_used=0.33))),
    "most of the range": ("few bits", effect(rounding=rounding(range_used=0.66))),
    "one channel nine times the others": (
        "outlier channel",
        effect(rounding=rounding(spread=9.0, channels=4)),
    ),
    "one channel seven times the others": ("few bits", effect(rounding=rounding(spread=7.0, channels=4))),
    "one channel": ("few bits", effect(rounding=rounding(spread=9.0, channels=1))),
    "magnified fifty times": ("amplified", effect(rounding=rounding(), **MAGNIFIED)),
    "magnified across a jump": ("flipped", effect(rounding=rounding(), linear=0.0, **MAGNIFIED)),
    "a jump that magnifies little": ("few bits", effect(rounding=rounding(), linear=0.0)),
    "no encoding of its own": ("few bits", effect()),
}


@pytest.mark.parametrize(("cause", "found"), BACKEND.values(), ids=BACKEND)
def test_causes_of_the_backend(cause: str, found: Effect) -> None:
    assert cause_of(found) == cause


@pytest.mark.parametrize(("cause", "found"), ENCODINGS.values(), ids=ENCODINGS)
def test_causes_of_the_quantiser(cause: str, found: Effect) -> None:
    assert cause_of(found, **QUANTISER) == cause


DETAILS = {
    "values reach 7e+04, and half floats end at 65504": replace(HALF, peak=7e4),
    "25.0% of its values become zero or lose most digits in half floats": replace(
        HALF, kind="constant", flushed=0.25
    ),
    "its error is 4 times what rounding explains": effect(error=0.04),
    "its error is more than what rounding explains": effect(floor=0.0),
    "its error is rounding, which the net magnifies 50 times": effect(**MAGNIFIED),
    "its error is rounding, which the net magnifies": effect(signal=0.0),
    "rounding alone makes its error, and leaves it 40 dB": effect(),
}


@pytest.mark.parametrize(("detail", "found"), DETAILS.items(), ids=DETAILS)
def test_details_of_the_backend(detail: str, found: Effect) -> None:
    assert only(found).detail == detail


def test_details_of_the_quantiser() -> None:
    eight = rounding(clipped=0.125, clipped_energy=0.6, range_used=1.4)
    assert only(effect(rounding=eight), **QUANTISER).detail == "12.5% of its values are clipped"
    # 20 log10(1 / 0.01) is 40 dB.
    assert only(effect(rounding=rounding()), **QUANTISER).detail == "8 bits leave it 40 dB"
    per_channel = effect(rounding=rounding(bits=0))
    assert only(per_channel, **QUANTISER).detail == "its encodings leave it 40 dB"


@pytest.mark.parametrize("found", [effect(error=0.0, floor=0.0), effect(signal=0.0)])
def test_no_detail_has_an_infinite_number(found: Effect) -> None:
    for step in ("backend", "quantisation"):
        assert "inf" not in only(replace(found, rounding=rounding()), step=step).detail


def test_sources_are_ordered_by_share_and_the_minor_ones_are_none() -> None:
    shares = {"a": 0.3, "b": -0.6, "c": 0.019, "d": 0.02, "e": None}
    effects = [effect(name=name, exact=share, linear=None) for name, share in shares.items()]
    found = sources_of(attribution(*effects))
    assert [(source.name, source.share) for source in found] == [("b", -0.6), ("a", 0.3), ("d", 0.02)]


def test_share_is_the_linear_one_where_no_other_was_found() -> None:
    assert [s.share for s in sources_of(attribution(effect(exact=None, linear=0.7)))] == [0.7]
    assert [s.share for s in sources_of(attribution(effect(exact=0.1, linear=0.7)))] == [0.1]


def test_source_says_where_it_is_and_of_which_output() -> None:
    place = effect(module="net.act", source="net.py:3", error=0.04, kind="op")
    found = only(place, method="decode", sample=2, output=3)
    assert (found.method, found.sample, found.output, found.step) == ("decode", 2, 3, "backend")
    assert (found.name, found.op, found.module, found.source) == (
        "aten_mul_tensor@0",
        "aten.mul.Tensor",
        "net.act",
        "net.py:3",
    )
    assert found.excess == pytest.approx(4.0)


def test_excess_without_a_floor_is_no_number() -> None:
    assert only(effect(floor=0.0)).excess is None

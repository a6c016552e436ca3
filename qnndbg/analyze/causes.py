"""Why a place makes an error: from what was measured there to a cause that a user can act on.

A cause belongs to a step. The backend's are a kernel that is wrong, a clipping that fusing leaves out, values
that half floats cannot hold (overflow, flushed to zero, too few digits, integers, a running sum that
stagnates), and amplification: the error is no larger than rounding explains, and the net magnifies it. The
quantiser's are a range that clips, one that is too wide, an outlier channel, amplification again, and plainly
too few bits.
"""

from __future__ import annotations

import math

from qnndbg.analyze.phrases import in_times, place_name, short_op, signed, where_of
from qnndbg.analyze.places import Places, told_apart
from qnndbg.model.attribution import Attribution, Effect, Rounding
from qnndbg.model.limits import FP16_MAX
from qnndbg.model.result import Cause, Source

NO_GRAPHS = Places()

FLOOR_LIMIT = 3.0
"""Local error over noise floor beyond which rounding is no explanation."""
MOST = 0.5
"""A property explains an error if it makes more than this share of it."""
RANGE_USED = 0.5
"""An encoding wastes a bit or more where the values use less of its range than this."""
OUTLIER = 8.0
"""A channel whose magnitude is that many times the median one takes three bits from the others."""
MAGNIFIED = 10.0
"""An output whose relative error is that many times that of the place: the net magnifies it."""
BEYOND = 1e9
"""A gain beyond this is that of what is all but zero, and no number says more."""
PICKS = frozenset(
    {"slice", "select", "split", "split_with_sizes", "unbind", "chunk", "narrow", "index", "index_select"}
    | {"gather", "getitem"}
)
"""Ops that pick a part, which may be small beside the rest."""
MINOR_SHARE = 0.02
"""A place that makes less of an output's error is not named."""
RUNNING_SUMS = ("cumsum", "sum", "mean", "avg_pool2d", "adaptive_avg_pool2d")
FEW_BITS = 11
"""Precision of a half float in bits."""


def sources_of(attribution: Attribution, places: Places = NO_GRAPHS) -> tuple[Source, ...]:
    """The places that make an output's error, by falling share.

    Args:
        attribution: one output in one step.
        places: the graphs that the effects are of.
    """
    attribution = places.gathered(attribution)
    effects = [effect for effect in attribution.effects if abs(effect.share) >= MINOR_SHARE]
    names = told_apart(
        [place_name(e.kind, places.name(e), places.op(e), e.role) for e in effects],
        [where_of(e.module, e.source) for e in effects],
        [places.node(e) for e in effects],
    )
    found = [_source(attribution, effect, places, name) for effect, name in zip(effects, names, strict=True)]
    return tuple(sorted(found, key=lambda source: (-abs(source.share), source.name)))


def _source(attribution: Attribution, effect: Effect, places: Places, called: str) -> Source:
    cause, detail = (
        _quantisers(attribution, effect)
        if attribution.step == "quantisation"
        else _backends(attribution, effect)
    )
    excess, magnified_by = effect.excess, ""
    if cause == "amplified" and (magnifier := places.magnifier(attribution, effect)):
        op, gain = magnifier
        where = where_of(op.module, op.source)
        magnifier_name = f"{short_op(places.op(op))}{f' ({where})' if where else ''}"
        if short_op(places.op(op)).removesuffix("_copy") in PICKS:
            cause = "few bits" if attribution.step == "quantisation" else "rounding"
            detail = (
                f"{_rounded_here(attribution, effect)}, too coarse for the part that {magnifier_name} picks"
            )
        else:
            magnified_by = magnifier_name
            detail = f"{_rounded_here(attribution, effect)}, which {magnified_by} magnifies{_by(gain)}"
    return Source(
        step=attribution.step,
        method=attribution.method,
        sample=attribution.sample,
        output=attribution.output,
        kind=effect.kind,
        name=places.name(effect),
        called=called,
        op=effect.op,
        role=effect.role,
        module=effect.module,
        source=effect.source,
        share=effect.share,
        excess=excess if math.isfinite(excess) else None,
        cause=cause,
        detail=detail,
        magnified_by=magnified_by,
        explained=attribution.explained,
        measured=effect.exact is not None,
    )


def _quantisers(attribution: Attribution, effect: Effect) -> tuple[Cause, str]:
    rounding = effect.rounding
    if rounding is None:
        return "few bits", "its inputs are rounded"
    if effect.kind != "constant" and rounding.clipped_energy > MOST:
        return "clipped", f"{rounding.clipped:.1%} of its values are clipped"
    if rounding.bits and rounding.range_used < RANGE_USED:
        return "wide range", f"its values use {rounding.range_used:.0%} of the range"
    if rounding.spread > OUTLIER and rounding.channels > 1:
        return "outlier channel", f"a channel is {rounding.spread:.0f} times the median one"
    gain = _gain(attribution, effect)
    if gain > MAGNIFIED and effect.flips:
        return "flipped", f"rounding to {_bits(rounding)} decides a comparison or a jump behind it"
    if gain > MAGNIFIED:
        return "amplified", f"{_rounded_here(attribution, effect)}, which the net magnifies{_by(gain)}"
    return "few bits", f"{_bits(rounding)} leave it {_decibels(effect)}"


def _backends(attribution: Attribution, effect: Effect) -> tuple[Cause, str]:
    peak = effect.peak
    if effect.half and peak > FP16_MAX:
        return "overflow", f"values reach {peak:.4g}, and half floats end at {FP16_MAX:.0f}"
    if effect.change:
        return "builder", f"{effect.change}, which leave it {_decibels(effect)}"
    if effect.kind != "op":
        if effect.flushed:
            return (
                "flushed",
                f"{effect.flushed:.1%} of its values become zero or lose most digits in half floats",
            )
        return "precision", f"half floats have {FEW_BITS} bits, which its values need more than"
    if effect.fused:
        return "fused", "the HTP fuses it with the next op, and does not clip in between as its encoding says"
    if effect.half and effect.faint > MOST:
        return "flushed", f"{effect.faint:.0%} of the signal there is too small for half floats"
    if effect.excess > FLOOR_LIMIT:
        if effect.state:
            return "state", f"it reads the state {effect.state}, whose start value the program does not hold"
        if effect.half and short_op(effect.op) in RUNNING_SUMS and effect.stagnates:
            return "stagnation", "its running sum is so large that half floats lose what is added"
        return "kernel", f"its error is {_times(effect.excess)} what rounding explains"
    if effect.half and effect.integers:
        return "integers", "integers are computed in half floats, which are not exact"
    if effect.half and effect.flips:
        return "flipped", "rounding to half floats decides a comparison or a jump behind it"
    gain = _gain(attribution, effect)
    if gain > MAGNIFIED:
        return "amplified", f"{_rounded_here(attribution, effect)}, which the net magnifies{_by(gain)}"
    return "rounding", f"rounding alone makes its error, and leaves it {_decibels(effect)}"


def _rounded_here(attribution: Attribution, effect: Effect) -> str:
    if attribution.step == "quantisation" and effect.rounding is not None:
        return f"its error is rounding to {_bits(effect.rounding)}"
    return "its error is rounding"


def _gain(attribution: Attribution, effect: Effect) -> float:
    """Relative error of the output, as far as it is made here, over the relative error of the place."""
    if not attribution.signal or not effect.signal or not effect.error:
        return math.inf
    return abs(effect.share) * attribution.error / attribution.signal / (effect.error / effect.signal)


def _by(gain: float) -> str:
    return f" {in_times(gain)}" if gain < BEYOND else ""


def _bits(rounding: Rounding) -> str:
    return f"{rounding.bits} bits" if rounding.bits else "its encodings"


def _decibels(effect: Effect) -> str:
    if not effect.error or not effect.signal:
        return "no error"
    return f"{signed(20 * math.log10(effect.signal / effect.error), 0)} dB"


def _times(excess: float) -> str:
    return in_times(excess) if math.isfinite(excess) else "more than"

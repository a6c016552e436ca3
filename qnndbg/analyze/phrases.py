"""Phrases of verdicts, findings and reports: how a user calls a place, an output, an amount."""

from __future__ import annotations

import math

from qnndbg.model.attribution import PlaceKind
from qnndbg.model.result import ErrorMetrics, Rung, Source

HUGE_SHARE = 1000.0
"""A share beyond this is written in powers of ten: effects that all but cancel out."""
MANY = 1e6


def culprit_name(source: Source) -> str:
    """How a user calls a source."""
    return source.called or place_name(source.kind, source.name, source.op, source.role)


def place_name(kind: PlaceKind, name: str, op: str, role: str) -> str:
    """How a user calls a place: the op, or which input or constant."""
    if kind == "op":
        return short_op(op)
    return f"the {role} of {short_op(op)}" if role else f"the {kind} {name}"


def where_of(module: str, source: str) -> str:
    """Module and source line, those that are known."""
    return ", ".join(part for part in (f"module {module}" if module else "", source) if part)


def short_op(op: str) -> str:
    """``hardswish`` of ``aten.hardswish.default``; a name that is no ATen name as it is."""
    return op.split(".")[1] if op.count(".") == 2 else op


def ending(final: Rung | None) -> str:
    """What is left of an output, as half a sentence."""
    if final is None:
        return "its output could not be compared with eager"
    return f"{output_name(final)} has {decibels(final.against_eager)} against eager"


def output_name(rung: Rung) -> str:
    """An output as a user numbers it; the method and the sample where they are not the usual ones."""
    name = f"output {rung.output}" if rung.output else "the output"
    if rung.method != "forward":
        name = f"{name} of {rung.method}"
    return f"{name} in sample {rung.sample}" if rung.sample else name


def decibels(error: ErrorMetrics | None) -> str:
    """An SQNR as the object of "has", in the cases where it is no number too."""
    if error is None:
        return "no comparison"
    if not error.mismatched:
        return "no error"
    if error.nonfinite:
        return f"{error.nonfinite} elements that are NaN or infinite on one side"
    if error.sqnr_db is None:
        return "an undefined SQNR (zero signal)"
    return f"{signed(error.sqnr_db)} dB"


def percent(share: float, digits: int = 0) -> str:
    """A share in per cent; one beyond a thousand times in powers of ten."""
    if math.isinf(share):
        return "∞%" if share > 0 else "−∞%"
    if abs(share) < HUGE_SHARE:
        return f"{signed(100 * share, digits)}%"
    mantissa, _, exponent = f"{share:.1e}".partition("e")
    return f"{mantissa}e{int(exponent) + 2}%".replace("-", "−")


def signed(value: float, digits: int = 1, *, plus: bool = False) -> str:
    """A number with a minus sign as wide as a plus, and no minus zero."""
    rounded = round(value, digits) or 0.0
    return f"{rounded:{'+' if plus else ''}.{digits}f}".replace("-", "−")


def in_times(factor: float) -> str:
    """``3 times``; a large factor in powers of ten."""
    if math.isinf(factor):
        return "∞ times"
    if factor < MANY:
        return f"{factor:.0f} times"
    mantissa, _, exponent = f"{factor:.1e}".partition("e")
    return f"{mantissa}e{int(exponent)} times"


def one_line(text: str) -> str:
    """A text from elsewhere without its line breaks."""
    return " ".join(text.split())


def counted(number: int, what: str) -> str:
    """``1 note``, ``2 notes``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"

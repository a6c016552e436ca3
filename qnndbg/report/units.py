"""How numbers and signs are written in text. A sign goes with each colour, so that either suffices."""

from __future__ import annotations

import math
from typing import Literal

from qnndbg.analyze import phrases
from qnndbg.model.result import MAX_SQNR_DB, ErrorMetrics

NONE = "–"
EQUAL = "="
MADE_HERE = "▲"
INHERITED = "↓"
FUSED = "&"
SOUND = "✓"
BROKEN = "✗"

ASCII = str.maketrans("▲↓▼✓✗→·•–−≈×∞…█▏▎▍▌▋▊▉", "^<v+x>|*--~x8~########")
"""A stand-in of the same width for each sign, for terminals without Unicode."""

CONTROLS = dict.fromkeys(
    (*range(0x20), 0x7F, *range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), None
)
"""What tells a terminal to do something, or turns the direction of writing; dropped by ``str.translate``."""
del CONTROLS[ord("\n")], CONTROLS[ord("\t")]

BAR_DB = 100.0
"""A bar is full here; better than this is rounding of float32."""
SHORT_DTYPES = {
    "UFIXED_POINT_": "u",
    "SFIXED_POINT_": "s",
    "FLOAT_": "f",
    "BFLOAT_": "bf",
    "UINT_": "uint",
    "INT_": "int",
    "BOOL_": "bool",
}
EIGHTHS = " ▏▎▍▌▋▊▉"


def steps(error: ErrorMetrics | None, unit: Literal["LSB", "ULP"]) -> str:
    """The largest error in steps, as a cell."""
    value = None if error is None else error.max_lsb if unit == "LSB" else error.max_ulp
    return NONE if value is None else number(value)


def decibels(error: ErrorMetrics | None) -> str:
    """The SQNR as a cell: a number, equal, not finite, or undefined."""
    if error is None or not error.elements:
        return NONE
    if not error.mismatched:
        return EQUAL
    if error.nonfinite:
        return "NaN/∞"
    return sqnr(error.sqnr_db)


def sqnr(decibels: float | None) -> str:
    """An SQNR by itself as a cell."""
    if decibels is None:
        return NONE
    return EQUAL if decibels >= MAX_SQNR_DB else signed(decibels)


def with_unit(error: ErrorMetrics | None) -> str:
    """The SQNR within a sentence: ``40.2 dB``, or in words what is none."""
    cell = decibels(error)
    if cell == EQUAL:
        return "equal"
    return f"{cell} dB" if cell[-1].isdigit() else "no number" if cell == NONE else cell


def number(value: float) -> str:
    """A count of steps in at most six characters."""
    if value >= 1e6:
        mantissa, _, exponent = f"{value:.1e}".partition("e")
        return f"{mantissa}e{int(exponent)}"
    if 0 < value < 0.05:
        return "<0.1"
    return f"{value:.0f}" if value >= 100 or abs(value - round(value)) < 0.01 else f"{value:.1f}"


def signed(value: float, *, plus: bool = False) -> str:
    """One decimal, with a minus sign as wide as a plus, and no minus zero."""
    return phrases.signed(value, plus=plus)


def times(value: float | None) -> str:
    """An error over its noise floor, as a cell."""
    if value is None:
        return NONE
    return "∞" if math.isinf(value) else number(value)


def effect(share: float | None) -> str:
    """A share of the output's error in per cent, as a cell; opposite errors have a minus sign."""
    if share is None:
        return NONE
    return "0 %" if abs(share) < 0.0005 else f"{phrases.percent(share, 1).removesuffix('%')} %"


def percent(part: int, whole: int) -> str:
    """A share with one decimal."""
    return f"{100 * part / whole:.1f} %" if whole else NONE


def dtype(name: str) -> str:
    """A short form of QNN's name: ``u16`` of ``UFIXED_POINT_16``, ``f16`` of ``FLOAT_16``; else as it is."""
    for long, short in SHORT_DTYPES.items():
        if name.startswith(long):
            return short + name.removeprefix(long)
    return name


def bar(value: float, width: int) -> str:
    """A bar of a width in cells, exact to an eighth of one."""
    filled = round(min(max(value / BAR_DB, 0.0), 1.0) * width * 8)
    return ("█" * (filled // 8) + EIGHTHS[filled % 8]).rstrip()


def clip_tensor(text: str, width: int) -> str:
    """Shorten a tensor name where it tells least: at the default overload, else in the middle."""
    if len(text) > width:
        text = text.replace("_default", "…", 1)
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def clip_left(text: str, width: int) -> str:
    """Shorten a dotted path to its innermost parts."""
    return text if len(text) <= width else f"…{text[len(text) - width + 1 :]}"


def clip_right(text: str, width: int) -> str:
    """Shorten a word to its beginning."""
    return text if len(text) <= width else f"{text[: width - 1]}…"

"""Shortens what a baseline holds: numbers to the digits that mean something, long encodings to a summary.

Both sides of a difference are trimmed in the same way, so nothing differs for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T", bound=Struct)

FLOAT32_DIGITS = 9
"""Significant digits that tell any two float32 apart; what a graph and its encodings need."""
METRIC_DIGITS = 5
FEW = 4
"""A longer list of scales is kept as its smallest, its largest and its root mean square."""


def trimmed(value: T, digits: int) -> T:
    """The value with all floats rounded, long encodings summed up, and no place in a source file.

    Args:
        value: any struct of the model.
        digits: significant ones that are kept.
    """
    return msgspec.convert(_trim(msgspec.to_builtins(value), digits), type(value))


def _trim(value: object, digits: int) -> object:
    if isinstance(value, float):
        return rounded(value, digits)
    if isinstance(value, list | tuple):
        return [_trim(item, digits) for item in value]
    if isinstance(value, dict):
        if "scales" in value:
            return _encoding(value)
        return {key: "" if key == "source" else _trim(item, digits) for key, item in value.items()}
    return value


def rounded(value: float, digits: int) -> float:
    """The float with so many significant digits."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else value


def _encoding(fields: dict[str, object]) -> dict[str, object]:
    scales, zeros = fields["scales"], fields["zero_points"]
    assert isinstance(scales, Sequence)
    assert isinstance(zeros, Sequence)
    if len(scales) > FEW:
        scales = (min(scales), max(scales), math.sqrt(sum(s * s for s in scales) / len(scales)))
    if len(zeros) > FEW:
        zeros = (min(zeros), max(zeros), sum(zeros))
    return {**fields, "scales": [rounded(s, FLOAT32_DIGITS) for s in scales], "zero_points": zeros}

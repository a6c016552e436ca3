"""How the errors and the values of one layer are distributed, in few bins."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from qnndbg.analyze.normalize import Array
from qnndbg.analyze.values import Values
from qnndbg.model.graph import QuantParams
from qnndbg.model.result import LayerResult

Real = NDArray[np.float64]

BINS = 41
"""Odd, so that zero has a bin of its own."""
BLOCK = 1 << 20
"""Elements that are counted at once."""


class Histogram(Struct, frozen=True, kw_only=True):
    """Counts of one or two series over the same bins."""

    unit: str
    """``LSB``, or empty for real units."""
    edges: tuple[float, ...]
    counts: dict[str, tuple[int, ...]]
    """Series to counts, one fewer than edges."""
    marks: tuple[float, ...] = ()
    """Values to mark, such as the ends of the encoding's range."""


def error_histogram(values: Values, layer: LayerResult) -> Histogram | None:
    """Errors of the HTP around zero: accumulated and local; None if no side is there or nothing differs.

    In steps of the encoding where it has one scale, else in real units.
    """
    encoding = layer.encoding
    scale = encoding.scales[0] if encoding is not None and len(encoding.scales) == 1 else 0.0
    step = scale or 1.0
    pairs = {"accumulated": values.reference, "local": values.local}
    sides = {name: side for name, side in pairs.items() if side is not None}
    reach = max((_largest(values.target, side) / step for side in sides.values()), default=0.0)
    if not reach:
        return None
    edges = _around_zero(reach, whole=bool(scale))
    counts = {name: _count(values.target, side, step, edges) for name, side in sides.items()}
    return Histogram(unit="LSB" if scale else "", edges=tuple(edges.tolist()), counts=counts)


def value_histogram(values: Values, layer: LayerResult) -> Histogram | None:
    """Values of the HTP and of the CPU; None without finite values. Marks are the ends of the range."""
    sides = {"CPU": values.reference, "HTP": values.target}
    series = {name: side.astype(np.float64) for name, side in sides.items() if side is not None}
    finite = {name: side[np.isfinite(side)] for name, side in series.items()}
    filled = [side for side in finite.values() if side.size]
    if not filled:
        return None
    low, high = min(float(side.min()) for side in filled), max(float(side.max()) for side in filled)
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, BINS + 1)
    counts = {name: _counted(side, edges) for name, side in finite.items()}
    return Histogram(unit="", edges=tuple(edges.tolist()), counts=counts, marks=_range(layer.encoding))


def _range(encoding: QuantParams | None) -> tuple[float, ...]:
    if encoding is None or len(encoding.scales) != 1:
        return ()
    scale, zero = encoding.scales[0], encoding.zero_points[0]
    return ((encoding.qmin - zero) * scale, (encoding.qmax - zero) * scale)


def _around_zero(reach: float, *, whole: bool) -> Real:
    """Bins of one size with zero in the middle of one; of whole steps where these are few."""
    width = 2 * reach / (BINS - 1)
    if whole:
        width = max(math.ceil(width - 1e-6), 1)
    half = max(math.ceil(reach / width - 0.5), 1)
    edges: Real = (np.arange(2 * half + 2) - half - 0.5) * np.float64(width)
    return edges


def _largest(target: Array, side: Array) -> float:
    """The largest finite error."""
    return max((float(np.max(np.abs(e), initial=0.0)) for e in _errors(target, side)), default=0.0)


def _count(target: Array, side: Array, step: float, edges: Real) -> tuple[int, ...]:
    total = np.zeros(edges.size - 1, np.int64)
    for errors in _errors(target, side):
        total += np.histogram(errors / step, edges)[0]
    return tuple(total.tolist())


def _counted(side: Real, edges: Real) -> tuple[int, ...]:
    return tuple(np.histogram(side, edges)[0].tolist())


def _errors(target: Array, side: Array) -> list[Real]:
    blocks = []
    for start in range(0, target.size, BLOCK):
        ours, theirs = (a[start : start + BLOCK].astype(np.float64) for a in (target, side))
        finite = np.isfinite(ours) & np.isfinite(theirs)
        blocks.append(ours[finite] - theirs[finite])
    return blocks

"""Element by element: the values of both sides of one tensor, their histograms, and where they part most.

Tensors are read slab by slab, so that memory stays constant however large (or memory-mapped) they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from qnndbg.analyze.normalize import Array, dequantise, numbers, quantise, same_rank, saturate
from qnndbg.model.graph import QuantParams

NARROWEST, WIDEST = 1e-9, 1e300
"""Of the span of a histogram: beside its values, and at all."""
SLAB = 1 << 16
"""Elements at a time."""
Index = tuple[slice, ...]
Floats = NDArray[np.float64]


def slabs(shape: tuple[int, ...], limit: int = SLAB) -> Iterator[Index]:
    """Slices that together cover a shape, each of at most so many elements where a row has no more."""
    if not shape:
        yield ()
        return
    inner = math.prod(shape[1:])
    if not inner or not shape[0]:
        return
    if inner > limit:
        for i in range(shape[0]):
            for rest in slabs(shape[1:], limit):
                yield (slice(i, i + 1), *rest)
        return
    rows = max(limit // inner, 1)
    for start in range(0, shape[0], rows):
        yield (slice(start, min(start + rows, shape[0])), *(slice(0, n) for n in shape[1:]))


def real(array: Array, encoding: QuantParams | None, index: Index, dtype: str = "") -> Array | None:
    """A slab as real numbers; None for a dtype that has none.

    Args:
        array: as stored.
        encoding: what its integers mean; None for numbers that stand for themselves.
        index: the slab.
        dtype: the torch dtype, where the array holds only its bits.
    """
    part = array[index] if index else array
    if encoding is None or array.dtype.kind not in "iu":
        return numbers(part, dtype)
    return dequantise(part, _within(encoding, index))


def codes(array: Array, encoding: QuantParams, index: Index, dtype: str = "") -> Array | None:
    """A slab as integers of an encoding, which real numbers are rounded to; None as for :func:`real`."""
    part = numbers(array[index] if index else array, dtype)
    if part is None or part.dtype.kind in "iu":
        return part
    return quantise(part, _within(encoding, index))


def _within(encoding: QuantParams, index: Index) -> QuantParams:
    """The encoding of a slab."""
    if encoding.axis is None or not index:
        return encoding
    along = index[encoding.axis]
    return replace(encoding, scales=encoding.scales[along], zero_points=encoding.zero_points[along])


def saturated(array: Array, encoding: QuantParams) -> float | None:
    """The share of integers at an end of their range; an end that stands for zero does not count.

    None where the encoding is not of the whole tensor.
    """
    if len(encoding.zero_points) != 1 or array.dtype.kind not in "iu" or not array.size:
        return None
    ends = [end for end in (encoding.qmin, encoding.qmax) if end != encoding.zero_points[0]]
    count = sum(int(np.count_nonzero(array[s] == end)) for s in slabs(array.shape) for end in ends)
    return count / array.size


@dataclass(frozen=True, slots=True)
class Pair:
    """The two sides of a tensor, as they are stored."""

    reference: Array
    target: Array
    encoding: QuantParams | None = None
    """What the target's integers mean."""
    half: bool = False
    """The target holds half floats, whose dump may show what they cannot hold."""

    def blocks(self) -> Iterator[tuple[Index, Floats, Floats]]:
        """Slabs of both as real numbers in float64; nothing if they cannot be held against one another."""
        target = same_rank(self.reference, self.target)
        if target.shape != self.reference.shape:
            return
        encoding = self.encoding if target.shape == self.target.shape else _whole(self.encoding)
        for index in slabs(target.shape):
            a, b = real(self.reference, None, index), real(target, encoding, index)
            if a is None or b is None:
                return
            yield index, a.astype(np.float64), (saturate(b) if self.half else b).astype(np.float64)


def _whole(encoding: QuantParams | None) -> QuantParams | None:
    return encoding if encoding is None or encoding.axis is None else None


@dataclass(frozen=True, slots=True)
class Worst:
    """One element that is far off."""

    index: tuple[int, ...]
    reference: float
    target: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts in bins of equal width."""

    low: float
    high: float
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Elements:
    """What the elements of a pair say."""

    reference: Histogram
    target: Histogram
    error: Histogram
    """Of target minus reference."""
    worst: tuple[Worst, ...]
    """By falling absolute error; those that differ only."""
    channel_axis: int | None
    channels: tuple[float, ...]
    """RMS error along that axis."""
    elements: int
    nonfinite: int
    """Left out of the histograms."""


def look(pair: Pair, *, bins: int = 48, worst: int = 10, axis: int | None = None) -> Elements | None:
    """Read a pair twice: for its ranges, then for what lies in them.

    Args:
        pair: both sides.
        bins: of each histogram.
        worst: how many elements to name.
        axis: the channel axis; the second, or the only one, if None.

    Returns:
        None if the two cannot be held against one another.
    """
    ranges = _ranges(pair)
    if ranges is None:
        return None
    values, errors = ranges
    rank = pair.reference.ndim
    along = axis if axis is not None else (1 if rank > 1 else 0 if rank else None)
    size = pair.reference.shape[along] if along is not None else 0
    counts = np.zeros((3, bins), np.int64)
    sums, nonfinite = np.zeros(size), 0
    found: list[Worst] = []
    for index, a, b in pair.blocks():
        with np.errstate(invalid="ignore"):
            error = b - a
        finite = np.isfinite(error)
        nonfinite += int(error.size - np.count_nonzero(finite))
        for row, (data, span) in enumerate(((a, values), (b, values), (error, errors))):
            counts[row] += np.histogram(data[finite], bins=bins, range=span)[0]
        if along is not None:
            others = tuple(i for i in range(rank) if i != along)
            sums[index[along]] += np.sum(np.where(finite, error, 0.0) ** 2, axis=others)
        found = _merge(found, _worst(index, a, b, error, worst), worst)
    per = math.prod(pair.reference.shape) // size if size else 0
    first, second, third = (tuple(map(int, row)) for row in counts)
    channels = tuple(float(v) for v in np.sqrt(sums / per)) if per else ()
    return Elements(
        reference=Histogram(*values, first),
        target=Histogram(*values, second),
        error=Histogram(*errors, third),
        worst=tuple(found),
        channel_axis=along,
        channels=channels,
        elements=int(pair.reference.size),
        nonfinite=nonfinite,
    )


def _ranges(pair: Pair) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """The span of the values of both sides, and a span around zero for the errors."""
    low, high, far, seen = math.inf, -math.inf, 0.0, False
    for _, a, b in pair.blocks():
        seen = True
        with np.errstate(invalid="ignore"):
            finite = np.isfinite(a) & np.isfinite(b)
        for side in (a[finite], b[finite]):
            if side.size:
                low, high = min(low, float(side.min())), max(high, float(side.max()))
        if finite.any():
            far = max(far, float(np.max(np.abs(b[finite] - a[finite]))))
    if not seen:
        return None
    if low > high:
        low = high = 0.0
    if low == high:
        low, high = low - 0.5, high + 0.5
    # No narrower than floats around there can divide, and no wider than one can be.
    room = NARROWEST * max(abs(low), abs(high))
    if high - low < room:
        low, high = low - room, high + room
    low, high, far = max(low, -WIDEST), min(high, WIDEST), min(far, WIDEST)
    return (low, high), (-far or -0.5, far or 0.5)


def _worst(index: Index, a: Floats, b: Floats, error: Floats, count: int) -> list[Worst]:
    size = np.where(np.isnan(error), np.inf, np.abs(error)).reshape(-1)
    size[(np.isnan(a) & np.isnan(b)).reshape(-1) | (a == b).reshape(-1)] = 0.0
    picked = np.argpartition(-size, min(count, size.size - 1))[:count] if size.size > 1 else np.array([0])
    found = []
    for flat in picked:
        if size[flat]:
            at = np.unravel_index(int(flat), a.shape) if a.shape else ()
            place = tuple(int(i) + (s.start or 0) for i, s in zip(at, index, strict=True))
            found.append(Worst(place, float(a.reshape(-1)[flat]), float(b.reshape(-1)[flat])))
    return found


def _merge(old: list[Worst], new: list[Worst], count: int) -> list[Worst]:
    def size(worst: Worst) -> float:
        error = abs(worst.target - worst.reference)
        return math.inf if math.isnan(error) else error

    return sorted([*old, *new], key=lambda w: (-size(w), w.index))[:count]

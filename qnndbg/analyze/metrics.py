"""How far two tensors are apart. Owns the formulas of ``ErrorMetrics``; refuses to judge them.

Tensors arrive in canonical form: dequantised, logical layout, same shape. They are read in blocks, so
that memory stays constant however large (or memory-mapped) they are. With ``e = target - reference``
over the elements that are not left out as non-finite:

* ``sqnr_db = 10 log10(sum(reference²) / sum(e²))``, capped at ``MAX_SQNR_DB``
* ``relative_l2 = ‖e‖ / ‖reference‖`` and ``cosine = reference·target / (‖reference‖ ‖target‖)``
* ``rms_abs = sqrt(mean(e²))``
* ``max_lsb = max(|e| / step)`` and ``max_ulp = max(|e| / ulp(reference))``

The defined corner cases: NaN equals NaN and an infinity equals itself; two such elements count as an
error of zero and no signal. Equal tensors have ``MAX_SQNR_DB`` and a relative error of 0, even where
the signal is zero; a zero signal with an error has neither. An empty tensor, or one whose elements
are all left out, has counts and nothing else. Zeros of either sign are equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from qnndbg.model.result import MAX_SQNR_DB, ErrorMetrics

BLOCK = 1 << 16
"""Elements a block: half a megabyte in float64, which stays in the cache."""

FP16_ULP_EXPONENTS = (-13, 16)
"""Of ``frexp``: subnormals are spaced 2**-24 like the smallest normals, and nothing above 32."""


class _Part(NamedTuple):
    """What one block adds: sums of powers and the largest errors."""

    sums: np.ndarray
    """Of e², reference², target², reference·target and abs(e)."""
    peaks: np.ndarray
    """Largest abs(e), in absolute terms, in steps and in ULPs; NaN where the latter are undefined."""
    mismatched: int
    nonfinite: int


def measure(
    reference: np.ndarray,
    target: np.ndarray,
    *,
    step: np.ndarray | float | None = None,
    fp16: bool = False,
) -> ErrorMetrics:
    """Compare a target with its reference.

    Args:
        reference: real, integer or bool values of any shape.
        target: the same shape; the dtype may differ.
        step: the scale of the encoding, or scales that broadcast to the shape; gives ``max_lsb``, unless
            one of them is not a positive finite number.
        fp16: give ``max_ulp``; without effect on integers, or together with a step.

    Raises:
        ValueError: the shapes differ, a dtype is not real, or the step does not broadcast to the shape.
    """
    _check(reference, target)
    if not reference.size:
        return _nothing(elements=0)
    steps = None if step is None else _steps(step, reference.shape)
    ulp = fp16 and step is None and reference.dtype.kind == "f"
    unit = _unit(reference, target)
    parts = [_part(*block, unit, ulp) for block in _blocks(reference, target, steps)]
    total = _Part(
        sums=np.sum([part.sums for part in parts], axis=0),
        peaks=np.max([part.peaks for part in parts], axis=0),
        mismatched=sum(part.mismatched for part in parts),
        nonfinite=sum(part.nonfinite for part in parts),
    )
    return _metrics(total, reference.size, unit)


def _check(reference: np.ndarray, target: np.ndarray) -> None:
    if reference.shape != target.shape:
        raise ValueError(f"shapes differ: reference {reference.shape}, target {target.shape}")
    for array in (reference, target):
        if array.dtype.kind not in "biuf":
            raise ValueError(f"neither real, integer nor bool: {array.dtype}")


def _steps(step: np.ndarray | float, shape: tuple[int, ...]) -> np.ndarray | None:
    """The steps as a view of the tensor's shape; None if they are no scales at all."""
    steps = np.asarray(step, dtype=np.float64)
    usable = bool(np.all(np.isfinite(steps) & (steps > 0)))
    view = np.broadcast_to(steps, shape)
    return view if usable else None


def _blocks(
    reference: np.ndarray, target: np.ndarray, steps: np.ndarray | None
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Walk the tensors in memory order; a block is valid until the next one is asked for."""
    operands = (reference, target, np.float64(np.nan) if steps is None else steps)
    walk = np.nditer(operands, flags=["buffered", "external_loop"], buffersize=BLOCK)
    yield from walk


def _unit(reference: np.ndarray, target: np.ndarray) -> float:
    """A power of two to measure in, so that squares neither overflow nor vanish.

    Squares of everything narrower than float64 fit into float64 as they are.
    """
    if not any(array.dtype.kind == "f" and array.dtype.itemsize >= 8 for array in (reference, target)):
        return 1.0
    peak = 0.0
    for left, right, _ in _blocks(reference, target, None):
        for values in (left, right):
            peak = max(peak, float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values))))
    return math.ldexp(1.0, min(max(math.frexp(peak)[1], -1000), 1000))


def _part(reference: np.ndarray, target: np.ndarray, step: np.ndarray, unit: float, ulp: bool) -> _Part:
    differ = (reference != target) & ~(np.isnan(reference) & np.isnan(target))
    a, b = reference.astype(np.float64) / unit, target.astype(np.float64) / unit
    finite = np.isfinite(a) & np.isfinite(b)
    if not finite.all():
        a, b = np.where(finite, a, 0.0), np.where(finite, b, 0.0)
    error = np.abs(a - b) if _inexact(reference, target) else _integer_distance(reference, target)
    with np.errstate(over="ignore"):
        absolute = error * unit
        lsb = np.max(absolute / step)
        ulps = np.max(absolute / _fp16_ulp(a * unit)) if ulp else np.nan
    return _Part(
        sums=np.array([error @ error, a @ a, b @ b, a @ b, error.sum()]),
        peaks=np.array([absolute.max(), lsb, ulps]),
        mismatched=int(np.count_nonzero(differ)),
        nonfinite=int(np.count_nonzero(differ & ~finite)),
    )


def _inexact(reference: np.ndarray, target: np.ndarray) -> bool:
    """No integer type holds both, so that their distance is taken in float64."""
    return np.result_type(reference, target).kind == "f"


def _integer_distance(reference: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Exact beyond 2**53; taken in uint64, which holds the distance of any two int64."""
    high, low = np.maximum(reference, target), np.minimum(reference, target)
    distance: np.ndarray = (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)
    return distance


def _fp16_ulp(values: np.ndarray) -> np.ndarray:
    """Spacing of the fp16 numbers of the values' magnitude (IEEE 754 binary16, 11 bits of precision)."""
    exponents = np.where(values == 0, FP16_ULP_EXPONENTS[0], np.frexp(values)[1])
    ulp: np.ndarray = np.ldexp(1.0, np.clip(exponents, *FP16_ULP_EXPONENTS) - 11)
    return ulp


def _metrics(total: _Part, elements: int, unit: float) -> ErrorMetrics:
    compared = elements - total.nonfinite
    if not compared:
        return _nothing(elements, total.mismatched, total.nonfinite)
    noise, signal, other, product, absolute = (float(value) for value in total.sums)
    max_abs, max_lsb, max_ulp = (_finite(float(value)) for value in total.peaks)
    return ErrorMetrics(
        sqnr_db=_sqnr_db(signal, noise),
        max_abs=max_abs,
        mean_abs=_finite(absolute / compared * unit),
        rms_abs=_finite(math.sqrt(noise / compared) * unit),
        relative_l2=0.0 if not noise else math.sqrt(noise) / math.sqrt(signal) if signal else None,
        cosine=_cosine(product, signal, other),
        max_lsb=max_lsb,
        max_ulp=max_ulp,
        mismatched=total.mismatched,
        nonfinite=total.nonfinite,
        elements=elements,
    )


def _sqnr_db(signal: float, noise: float) -> float | None:
    if not noise:
        return MAX_SQNR_DB
    if not signal:
        return None
    return min(10.0 * (math.log10(signal) - math.log10(noise)), MAX_SQNR_DB)


def _cosine(product: float, signal: float, other: float) -> float | None:
    if not signal or not other:
        return None
    return min(max(product / (math.sqrt(signal) * math.sqrt(other)), -1.0), 1.0)


def _finite(value: float) -> float | None:
    """None for a metric that is undefined; the largest float64 for one that exceeds it."""
    return None if math.isnan(value) else min(value, float(np.finfo(np.float64).max))


def _nothing(elements: int, mismatched: int = 0, nonfinite: int = 0) -> ErrorMetrics:
    return ErrorMetrics(
        sqnr_db=None,
        max_abs=None,
        mean_abs=None,
        relative_l2=None,
        cosine=None,
        max_lsb=None,
        max_ulp=None,
        mismatched=mismatched,
        nonfinite=nonfinite,
        elements=elements,
    )

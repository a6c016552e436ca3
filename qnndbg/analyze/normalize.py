"""Brings a stored tensor to canonical form: real numbers for integers that an encoding gives a meaning."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qnndbg.model.graph import QuantParams
from qnndbg.model.limits import FP16_OVERFLOW

Array = NDArray[np.generic]


def dequantise(array: Array, encoding: QuantParams) -> Array:
    """The real numbers that integers stand for; float32, the arithmetic of torch's dequantise ops.

    Args:
        array: integers of any shape.
        encoding: per tensor, or per channel along its axis.
    """
    scale, zero_point = (_along(v, encoding, array.ndim) for v in (encoding.scales, encoding.zero_points))
    shifted = array.astype(np.float32) - zero_point.astype(np.float32)
    real: Array = shifted * scale.astype(np.float32)
    return real


def quantise(array: Array, encoding: QuantParams) -> Array:
    """The integers that stand for real numbers best, in float64: rounded to the grid and clamped to its ends.

    A NaN, for which no integer stands, stays one.

    Args:
        array: real numbers of any shape.
        encoding: per tensor, or per channel along its axis.
    """
    scale, zero_point = (_along(v, encoding, array.ndim) for v in (encoding.scales, encoding.zero_points))
    steps = np.rint(array.astype(np.float64) / scale.astype(np.float64))
    codes: Array = np.clip(steps + zero_point.astype(np.float64), encoding.qmin, encoding.qmax)
    return codes


def numbers(array: Array, dtype: str) -> Array | None:
    """The numbers in an array that may hold their bits only; None for a dtype that has no error metric.

    Args:
        array: as stored.
        dtype: the torch dtype that it stands for.
    """
    if dtype == "bfloat16":  # the upper half of a float32
        return (array.astype(np.uint32) << 16).view(np.float32)
    return None if array.dtype.kind == "c" or dtype.startswith("float8") else array


def saturate(array: Array) -> Array:
    """A dumped fp16 value as the next op reads it: the dump may show what a half float cannot hold."""
    limit = FP16_OVERFLOW[1]
    return np.clip(array.astype(np.float32), -limit, limit) if array.dtype.kind == "f" else array


def saturate_infinite(array: Array) -> Array:
    """A reference as the HTP can hold it at best: its half floats have no infinity."""
    if array.dtype.kind != "f" or not np.isinf(array).any():
        return array
    return np.where(np.isinf(array), np.sign(array) * FP16_OVERFLOW[1], array)


def half_of(array: Array) -> Array:
    """Floats as the HTP holds them in half precision; float64.

    As IEEE 754 rounds them, but the largest exponent has numbers too, at whose end they saturate (measured).
    """
    wide = array.astype(np.float64)
    exponent = np.floor(np.log2(np.clip(np.abs(wide), 2.0**-14, 2.0**16)))
    spacing = np.exp2(exponent - 10)
    rounded: Array = np.clip(np.round(wide / spacing) * spacing, -FP16_OVERFLOW[1], FP16_OVERFLOW[1])
    return rounded


def value_on_htp(raw: Array, encoding: QuantParams | None, *, half: bool) -> Array:
    """A dumped tensor in canonical form: the numbers that the next op reads.

    Args:
        raw: as dumped.
        encoding: of the tensor, if it has one.
        half: floats are half floats on the HTP.
    """
    if raw.dtype.kind == "f":
        return saturate(raw) if half else raw
    return raw if encoding is None else dequantise(raw, encoding)


def value_on_cpu(array: Array, dtype: str, *, half: bool) -> Array | None:
    """A reference in canonical form, and as the HTP can hold it at best; None without an error metric.

    Args:
        array: as stored.
        dtype: the torch dtype that it stands for.
        half: floats are half floats on the HTP.
    """
    reference = numbers(array, dtype)
    return saturate_infinite(reference) if half and reference is not None else reference


def step_of(encoding: QuantParams, rank: int) -> Array:
    """The size of one integer step, broadcastable over a tensor of that rank."""
    return _along(encoding.scales, encoding, rank)


def _along(values: tuple[float, ...], encoding: QuantParams, rank: int) -> Array:
    array = np.asarray(values)
    if encoding.axis is None or rank == 0:
        return array.reshape(()) if array.size == 1 else array
    shape = [1] * rank
    shape[encoding.axis] = -1
    return array.reshape(shape)


def same_rank(reference: Array, target: Array) -> Array:
    """The target in the reference's shape where only dimensions of size one differ; QNN has no 0-d tensor."""
    squeezed = tuple(n for n in reference.shape if n != 1) == tuple(n for n in target.shape if n != 1)
    return target.reshape(reference.shape) if squeezed else target

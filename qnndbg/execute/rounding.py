"""What an encoding does to values: how much is clipped, how well the range fits, which channel suffers."""

from __future__ import annotations

import math

import torch

from qnndbg.model.attribution import Rounding
from qnndbg.model.graph import Arg, Node

SHARED = 2
"""A value with fewer dimensions has no channels."""


def grid_of(node: Node) -> tuple[float, float, int] | None:
    """Least and greatest real number of a per-tensor (de)quantise node, and its bits; else None."""
    numbers = node.args[1:5]
    if "quantize_per_tensor" not in node.target or not all(_is_number(n) for n in numbers):
        return None
    scale, zero_point, low, high = (float(n) for n in numbers)  # type: ignore[arg-type]
    return (low - zero_point) * scale, (high - zero_point) * scale, _bits(low, high)


def rounding_of(
    exact: torch.Tensor, rounded: torch.Tensor, grid: tuple[float, float, int] | None, *, axis: int
) -> Rounding:
    """Describe the error between values and what an encoding made of them.

    Infinities, such as those of a mask, are left out: no encoding holds them.

    Args:
        exact: before, any shape.
        rounded: after, same shape.
        grid: least and greatest number of the encoding, and its bits; None where it differs by channel.
        axis: of the channels.
    """
    finite = torch.isfinite(exact) & torch.isfinite(rounded)
    exact, rounded = (torch.where(finite, value, 0.0) for value in (exact, rounded))
    error = (rounded - exact).double().square()
    total = float(error.sum())
    low, high, bits = grid if grid is not None else (-math.inf, math.inf, 0)
    # Half a step beyond the end is rounded, not clipped.
    edge = (high - low) / (2**bits - 1) / 2 if bits else 0.0
    outside = (exact < low - edge) | (exact > high + edge)
    clipped = float(outside.double().mean())
    # Zero lies in the range of every encoding, so that reaching it counts as use.
    used = float(exact.max().clamp(min=0.0) - exact.min().clamp(max=0.0))
    span = used / (high - low) if math.isfinite(high - low) and high > low else 1.0
    worst, share, count, spread = _channels(exact, error, axis)
    return Rounding(
        bits=bits,
        clipped=clipped,
        clipped_energy=float(error[outside].sum()) / total if total else 0.0,
        range_used=span,
        channel=worst,
        channel_share=share,
        channels=count,
        spread=spread,
    )


def channel_axis(value: torch.Tensor, op: str) -> int:
    """The axis of an op's output that a user calls its channels."""
    return -1 if value.dim() <= 3 and "conv" not in op else 1


def _channels(exact: torch.Tensor, error: torch.Tensor, axis: int) -> tuple[int | None, float, int, float]:
    if exact.dim() < SHARED or exact.shape[axis] < SHARED:
        return None, 0.0, 0, 1.0
    by_channel = error.movedim(axis, 0).flatten(1).sum(1)
    peaks = exact.abs().movedim(axis, 0).flatten(1).amax(1)
    total = float(by_channel.sum())
    worst = int(by_channel.argmax())
    middle = float(peaks.median())
    return (
        worst,
        float(by_channel[worst]) / total if total else 0.0,
        int(by_channel.numel()),
        float(peaks.max()) / middle if middle else 1.0,
    )


def _bits(low: float, high: float) -> int:
    return round(math.log2(high - low + 1))


def _is_number(value: Arg) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)

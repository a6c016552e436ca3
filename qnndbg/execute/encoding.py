"""Rounds real numbers to the grid of an encoding, and gives the real numbers that integers stand for.

Torch's own quantise and dequantise operators do it where they can, so that the result is bit-equal to
what a module from ``convert_pt2e`` computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators

from qnndbg.model.graph import QuantParams


def fake_quantise(value: torch.Tensor, encoding: QuantParams) -> torch.Tensor:
    """Round real numbers to the grid of an encoding; any shape, float32 in and out.

    Gradients pass straight through where the value lies in the encoding's range, and stop where it is
    clipped (Bengio et al., 2013).
    """
    if not value.requires_grad:
        return _fake_quantise(value, encoding)
    with torch.no_grad():
        rounded = _fake_quantise(value, encoding)
        open_ = (rounded - value).abs() <= step_of(encoding, value.shape)
    passed = torch.where(open_, value, value.detach())
    return passed + (rounded - passed).detach()


def step_of(encoding: QuantParams, shape: Sequence[int]) -> torch.Tensor:
    """The size of one integer step; broadcasts to a tensor of that shape."""
    if encoding.scheme == "per_block":
        return _blocks(encoding, shape)[0]
    scale = _channels(encoding)[0]
    return scale[0] if encoding.scheme == "per_tensor" else _along(scale, encoding.axis or 0, shape)


def _fake_quantise(value: torch.Tensor, encoding: QuantParams) -> torch.Tensor:
    ops = torch.ops.quantized_decomposed
    limits = (encoding.qmin, encoding.qmax, getattr(torch, encoding.dtype))
    value = value.float()
    if encoding.scheme == "per_tensor":
        grid = (encoding.scales[0], encoding.zero_points[0], *limits)
        return _real(ops.dequantize_per_tensor.default(ops.quantize_per_tensor.default(value, *grid), *grid))
    if encoding.scheme == "per_channel":
        channels = (*_channels(encoding), encoding.axis, *limits)
        return _real(
            ops.dequantize_per_channel.default(ops.quantize_per_channel.default(value, *channels), *channels)
        )
    scale, zero_point = _blocks(encoding, value.shape)
    integers = torch.clamp(torch.round(value / scale) + zero_point, encoding.qmin, encoding.qmax)
    return (integers - zero_point) * scale


def dequantise(value: torch.Tensor, encoding: QuantParams) -> torch.Tensor:
    """The real numbers that integers stand for; float32, same shape."""
    wide = value.to(torch.int64) if value.dtype in {torch.uint16, torch.uint32} else value
    integers = wide.float()
    if encoding.scheme == "per_tensor":
        return (integers - encoding.zero_points[0]) * encoding.scales[0]
    if encoding.scheme == "per_channel":
        scale, zero_point = (_along(t, encoding.axis or 0, integers.shape) for t in _channels(encoding))
        return ((integers - zero_point) * scale).float()
    scale, zero_point = _blocks(encoding, value.shape)
    return (integers - zero_point) * scale


def _real(value: Any) -> torch.Tensor:
    tensor: torch.Tensor = value
    return tensor.float()


def _channels(encoding: QuantParams) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(encoding.scales, dtype=torch.float32), torch.tensor(
        encoding.zero_points, dtype=torch.int64
    )


def _along(values: torch.Tensor, axis: int, shape: Sequence[int]) -> torch.Tensor:
    if len(values) not in {1, shape[axis]}:
        raise ValueError(f"an encoding of {len(values)} scales is not one of {shape[axis]} channels")
    return values.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])


def _blocks(encoding: QuantParams, shape: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale and zero point of each element, from those of its block."""
    counts = [n // b for n, b in zip(shape, encoding.block_size, strict=True)]

    def spread(values: Sequence[float]) -> torch.Tensor:
        grid = torch.tensor(values, dtype=torch.float32)
        grid = grid.reshape(counts) if grid.numel() > 1 else grid.expand(counts)
        for axis, size in enumerate(encoding.block_size):
            grid = grid.repeat_interleave(size, dim=axis)
        return grid

    return spread(encoding.scales), spread(encoding.zero_points)

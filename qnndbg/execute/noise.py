"""The noise floor: the error that rounding alone may cause at each op.

Monte Carlo arithmetic (Parker, 1997): every op is evaluated on the HTP's inputs, and once more with each
input element off by a random part of a rounding. How far its output moves is what the op makes of
roundings, be it a sum, an exponential or a difference of large numbers; no op needs a formula of its own.
Added to it is the rounding of the output, which either side does by itself. Integers may show no error at
all, and what only moves or compares numbers, or looks them up, none but that rounding.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from qnndbg.execute.encoding import step_of
from qnndbg.execute.operators import find_operator
from qnndbg.model.graph import Node, QuantParams

ULP16 = 2.0**-10
"""Spacing of half floats relative to their power of two: 11 bits of precision (IEEE 754 binary16)."""
TOP16 = 2.0**16
"""The largest power of two that the HTP's half floats reach, one more than IEEE's."""
SUBNORMAL16 = 2.0**-24
"""Spacing of half floats below the smallest normal one."""
FLOAT32 = 2.0**-22
"""Relative error of an op in float32 that rounds its inputs, its sum and its result."""
ROUNDINGS = math.sqrt(2 / 12)
"""RMS in steps of the difference of two values rounded apart: each is uniform within half a step."""
EXACT_SUMS = {"convolution", "conv1d", "conv2d", "conv3d", "linear", "mm", "bmm", "addmm", "matmul"}
"""Ops whose sums the HTP takes wide enough that they add no noise, in floats and of 8 bits (measured)."""
ARITHMETIC = {"add", "sub", "rsub", "mul", "div", "sqrt"}
"""Ops of one operation, which the HTP takes of the values as they are and rounds once (measured)."""
ROUNDED_ONCE = ARITHMETIC | {"pow", "native_layer_norm", "native_group_norm", "rms_norm"}
"""Of half floats these too, which the HTP computes in wider ones."""
SUM_UNIT = 256
"""Steps of input times weight in which the HTP adds up 16 bits: it takes them as two bytes, and drops the low
half of what the lower byte makes (measured on weights of 2, 4 and 8 bits, by channel and by tensor). Where
either factor has 16 bits, this happens twice."""
TRUNCATION = 1 / math.sqrt(3)
"""RMS in units of what is dropped: uniform between none and one."""
MOVES = {
    "view", "view_copy", "_unsafe_view", "reshape", "permute", "permute_copy", "transpose",
    "transpose_copy", "squeeze", "squeeze_copy", "unsqueeze", "unsqueeze_copy", "slice", "slice_copy",
    "select", "select_copy", "expand", "expand_copy", "clone", "cat", "stack", "unbind", "unbind_copy",
    "split", "split_with_sizes", "split_with_sizes_copy", "split_copy", "chunk", "index_select", "gather",
    "repeat", "flip", "roll", "getitem", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "index",
    "embedding", "alias", "alias_copy", "detach", "max_pool2d", "max_pool2d_with_indices", "relu",
    "hardtanh", "clamp", "maximum", "minimum", "amax", "amin", "neg", "abs", "constant_pad_nd", "where",
    "masked_fill", "topk", "sort", "tile", "lift_fresh_copy", "min", "max", "floor", "ceil", "trunc",
    "index_put", "scatter", "slice_scatter", "select_scatter", "upsample_nearest2d", "reflection_pad1d",
    "reflection_pad2d", "reflection_pad3d", "replication_pad2d",
}  # fmt: skip
"""Ops that only pick, move or compare numbers: an error of theirs is no rounding."""
CLIPS = {"relu", "hardtanh", "clamp"}
"""Those of them that the HTP fuses with the sum before; they then read it unrounded."""
BYTE = 8
"""Of so many bits a product is exact, and an op of one value is looked up in a table of its results."""


def kind_of(node: Node) -> str:
    """The bare name of a node's op, such as ``conv2d`` of ``aten.conv2d.default``."""
    parts = node.target.split(".")
    return parts[1] if len(parts) > 1 else node.target


def perturbed(
    value: torch.Tensor, encoding: QuantParams | None, generator: torch.Generator, *, half: bool
) -> torch.Tensor:
    """A value with each element off by a random part of a rounding; integers and exact floats as they are.

    Args:
        value: of any shape.
        encoding: of the value; half a step of it is the largest change.
        generator: of the random numbers, so that a recording made again is the same.
        half: the value is a half float on the HTP; half a unit in its last place is the largest change.
    """
    if not value.is_floating_point():
        return value
    part = torch.rand(value.shape, generator=generator) - 0.5
    if encoding is not None:
        return value + part * step_of(encoding, value.shape)
    return value + part * ulp16(value) if half else value


def ulp16(value: torch.Tensor) -> torch.Tensor:
    """The spacing of half floats around each element."""
    exponent = torch.floor(torch.log2(value.abs().double().clamp(min=2.0**-14, max=TOP16)))
    return (torch.exp2(exponent) * ULP16).clamp(min=SUBNORMAL16).to(value.dtype)


class Operand(NamedTuple):
    """A tensor that an op reads."""

    maker: Node
    """The op that computes it, behind those that only move it."""
    encoding: QuantParams | None

    @property
    def bits(self) -> int:
        """Of its integers; 0 of floats."""
        return (self.encoding.qmax - self.encoding.qmin).bit_length() if self.encoding is not None else 0


class Floor(NamedTuple):
    """The error that rounding explains at one value, in real units."""

    rms: float
    peak: float
    """Of a single element."""


def floor_of(
    node: Node,
    exact: torch.Tensor,
    moved: torch.Tensor,
    encoding: QuantParams | None,
    *,
    half: bool,
    operands: tuple[Operand, ...] = (),
) -> Floor:
    """The error that rounding explains at one output of an op.

    Args:
        node: which computes it.
        exact: its value from the HTP's inputs, unrounded.
        moved: the same from perturbed inputs.
        encoding: of the output; of a dequantise op, which the HTP may fuse, that of its input.
        half: computed in half floats.
        operands: the tensors that the op reads, in order.
    """
    if not exact.is_floating_point() or exact.numel() == 0:
        return Floor(0.0, 0.0)
    noise = moved - exact
    if (encoding is None and not half) or _adds_no_noise(node, operands, half=half):
        noise = torch.zeros_like(exact)
    unit, times = _truncated(node, operands)
    if encoding is not None:
        steps = step_of(encoding, exact.shape).double()
    elif half:
        # Of a move too: what it reads may have been dumped before it was rounded.
        steps = ulp16(exact).double()
    else:
        steps = exact.abs().double() * FLOAT32 / ROUNDINGS
    return Floor(
        math.hypot(rms(steps) * ROUNDINGS, rms(noise), rms(unit) * TRUNCATION * math.sqrt(times)),
        _peak(steps) + _peak(noise) + _peak(unit) * times,
    )


def _adds_no_noise(node: Node, operands: tuple[Operand, ...], *, half: bool) -> bool:
    kind = kind_of(node)
    if kind in CLIPS:
        return half
    if kind in MOVES | EXACT_SUMS or (half and kind in ROUNDED_ONCE):
        return True
    if len(operands) == 1 and kind_of(operands[0].maker) in EXACT_SUMS:
        return False  # it may be fused with the sum, and then reads it unrounded
    return kind in ARITHMETIC or _looked_up(node, operands)


def _looked_up(node: Node, operands: tuple[Operand, ...]) -> bool:
    """Whether the result is read from a table."""
    if len(operands) != 1 or not 0 < operands[0].bits <= BYTE:
        return False
    operator = find_operator(node.target)
    return operator is not None and torch.Tag.pointwise in getattr(operator, "tags", ())


def _truncated(node: Node, operands: tuple[Operand, ...]) -> tuple[torch.Tensor, int]:
    """The unit of a sum of 16 bits, in real units by channel, and how often a part of one is dropped."""
    kind = kind_of(node)
    factors = operands[1:] + operands[:1] if kind == "addmm" else operands
    scales = [torch.tensor(one.encoding.scales).double() for one in factors[:2] if one.encoding is not None]
    wide = sum(one.bits > BYTE for one in factors[:2])
    if kind not in EXACT_SUMS or len(scales) < len(factors[:2]) or not wide:
        return torch.zeros(1), 0
    # Of the products, for the zero points, and of the bias if there is one.
    return SUM_UNIT**wide * scales[0] * scales[-1], len(factors)


def _peak(value: torch.Tensor) -> float:
    finite = value[torch.isfinite(value)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def half_of(value: torch.Tensor) -> torch.Tensor:
    """A float as the HTP holds it in half precision: as IEEE's, but the largest exponent has numbers too.

    Beyond 131008 it saturates (measured: the HTP knows no infinity and no NaN).
    """
    if not value.is_floating_point():
        return value
    rounded = torch.round(value.double() / ulp16(value).double()) * ulp16(value).double()
    return rounded.clamp(-131008.0, 131008.0).to(value.dtype)


def rms(value: torch.Tensor) -> float:
    """Root of the mean square of the finite elements."""
    finite = value.double()[torch.isfinite(value)]
    return float(finite.square().mean().sqrt()) if finite.numel() else 0.0

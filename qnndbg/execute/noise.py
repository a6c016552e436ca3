"""The noise floor: the error that rounding alone may cause at each op.

Monte Carlo arithmetic (Parker, 1997): every op is evaluated on the HTP's inputs, and once more with each
input element off by a random part of a rounding. How far its output moves is what the op makes of
roundings, be it a sum, an exponential or a difference of large numbers; no op needs a formula of its own.
Added to it is the rounding of the output, which either side does by itself. Half floats that are only moved
or compared may be off by the last digit of the float32 that they are dumped as; integers not at all.
"""

from __future__ import annotations

import math

import torch

from qnndbg.execute.encoding import step_of
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
"""Ops that the HTP computes from quantised inputs in integers wide enough, so that these add no noise."""
MOVES = {
    "view", "view_copy", "_unsafe_view", "reshape", "permute", "permute_copy", "transpose",
    "transpose_copy", "squeeze", "squeeze_copy", "unsqueeze", "unsqueeze_copy", "slice", "slice_copy",
    "select", "select_copy", "expand", "expand_copy", "clone", "cat", "stack", "unbind", "unbind_copy",
    "split", "split_with_sizes", "split_with_sizes_copy", "split_copy", "chunk", "index_select", "gather",
    "repeat", "flip", "roll", "getitem", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "index",
    "embedding", "alias", "alias_copy", "detach", "max_pool2d", "max_pool2d_with_indices", "relu",
    "hardtanh", "clamp", "maximum", "minimum", "amax", "amin", "neg", "abs", "constant_pad_nd", "where",
    "masked_fill", "topk", "sort", "tile", "lift_fresh_copy",
}  # fmt: skip
"""Ops that only pick, move or compare numbers: an error of theirs is no rounding."""


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


def floor_of(
    node: Node, exact: torch.Tensor, moved: torch.Tensor, encoding: QuantParams | None, *, half: bool
) -> float:
    """The RMS error, in real units, that rounding explains at one output of an op.

    Args:
        node: which computes it.
        exact: its value from the HTP's inputs, unrounded.
        moved: the same from perturbed inputs.
        encoding: of the output.
        half: computed in half floats.
    """
    if not exact.is_floating_point() or exact.numel() == 0:
        return 0.0
    rounding = noise = 0.0
    kind = kind_of(node)
    if encoding is not None:
        steps = step_of(encoding, exact.shape).double()
        rounding = float(steps.square().mean().sqrt()) * ROUNDINGS
        noise = 0.0 if kind in EXACT_SUMS | MOVES else rms(moved - exact)
    elif half and kind not in MOVES:
        rounding = rms(ulp16(exact)) * ROUNDINGS
        noise = rms(moved - exact)
    else:  # a half float is dumped as float32, and was seen to be off by a unit in the last place of that
        rounding = rms(exact) * FLOAT32
    return math.hypot(rounding, noise)


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

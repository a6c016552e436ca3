"""The noise floor of integers: sums of 16 bits, tables of 8, and what is fused with a sum.

The HTP's arithmetic is written down here once more, in integers of numpy.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from numpy.typing import NDArray

from qnndbg.execute.local import Taps, evaluate_locally
from qnndbg.execute.noise import Operand, floor_of
from qnndbg.execute.program import Program
from qnndbg.model.graph import QuantParams, Ref, Seq
from tests.reference.programs import INPUT, at, call, encoding, program

APART = math.sqrt(1 / 12 + 1 / 12)
Integers = NDArray[np.int64]
IN, OUT = encoding(2.0**-13, 30_000, bits=16), encoding(2.0**-11, 30_000, bits=16)
WEIGHTS = QuantParams(
    scheme="per_channel",
    scales=tuple(float(scale) for scale in np.linspace(0.01, 0.03, 64)),
    zero_points=(0,) * 64,
    qmin=-127,
    qmax=127,
    dtype="int8",
    axis=0,
)


def by_bytes(q: Integers, weights: Integers, zero_point: int, bias: Integers) -> Integers:
    """A product in units of 256: that of the upper bytes, and what is left of the others."""
    products = (q >> 8) @ weights.T + (((q & 255) @ weights.T) >> 8)
    held: Integers = products - ((zero_point * weights.sum(1)) >> 8) + (bias >> 8)
    return held


def test_floor_of_a_sum_of_16_bits_is_what_truncation_makes() -> None:
    random = np.random.default_rng(0)
    q = random.integers(0, 2**16, (200, 96))
    weights, bias = random.integers(-127, 128, (64, 96)), random.integers(-(2**20), 2**20, 64)
    unit = np.asarray(WEIGHTS.scales) * IN.scales[0]
    exact = ((q - IN.zero_points[0]) @ weights.T + bias) * unit
    held = by_bytes(q, weights, IN.zero_points[0], bias) * 256 * unit
    error = float(np.sqrt(np.mean((held - exact) ** 2)))
    parts = tuple(Operand(INPUT, one) for one in (IN, WEIGHTS, None))
    floor = floor_of(
        call("linear", "aten.linear.default"),
        torch.from_numpy(exact),
        torch.from_numpy(exact),
        encoding(1e-9, bits=16),
        half=False,
        operands=parts,
    )
    assert 0.5 < error / floor.rms < 1.1
    assert np.abs(held - exact).max() < floor.peak


def test_floor_of_a_sum_of_16_by_16_bits_too() -> None:
    random = np.random.default_rng(1)
    q, other = random.integers(0, 2**16, (200, 96)), random.integers(-(2**15), 2**15, (96, 50))
    symmetric = QuantParams(scales=(1e-4,), zero_points=(0,), qmin=-(2**15), qmax=2**15 - 1, dtype="int16")
    unit = IN.scales[0] * symmetric.scales[0]
    exact = (q - IN.zero_points[0]) @ other * unit
    (high, low), (above, below) = ((of >> 8, of & 255) for of in (q, other))
    held = high @ above + ((high @ below + low @ above) >> 8) + ((low @ below) >> 16)
    held -= (IN.zero_points[0] * other.sum(0)) >> 16
    error = float(np.sqrt(np.mean((held * 65536 * unit - exact) ** 2)))
    value = torch.from_numpy(exact)
    parts = (Operand(INPUT, IN), Operand(INPUT, symmetric))
    node = call("bmm", "aten.bmm.default")
    floor = floor_of(node, value, value, encoding(1e-9, bits=16), half=False, operands=parts)
    assert 0.5 < error / floor.rms < 1.1


@pytest.mark.parametrize("kind", ["linear", "mm", "convolution"])
def test_sum_of_8_bits_is_exact(kind: str) -> None:
    parts = (Operand(INPUT, encoding(0.01)), Operand(INPUT, WEIGHTS))
    floor = floor_of(
        call("sum", f"aten.{kind}.default"),
        torch.ones(9),
        torch.ones(9),
        encoding(0.25),
        half=False,
        operands=parts,
    )
    assert floor.rms == pytest.approx(0.25 * APART)


def test_the_bias_of_addmm_is_no_factor() -> None:
    node, value = call("sum", "aten.addmm.default"), torch.ones(9)
    bias, x, weights = (Operand(INPUT, one) for one in (encoding(1.0, bits=32), IN, WEIGHTS))
    floor = floor_of(node, value, value, OUT, half=False, operands=(bias, x, weights))
    same = floor_of(
        call("sum", "aten.linear.default"), value, value, OUT, half=False, operands=(x, weights, bias)
    )
    assert floor == same
    assert floor.rms > OUT.scales[0]


X = torch.linspace(0.0, 4.0, 1000)
FINE, COARSE = encoding(0.02, 0), encoding(0.1, 0)


def net(act: str, *, bits: int = 8) -> Program:
    return program(
        (
            INPUT,
            call("mul", "aten.mul.Tensor", Ref("x"), 1.0, encoding=encoding(0.1, 0, bits)),
            call("view", "aten.view.default", Ref("mul"), Seq(items=(-1,)), encoding=encoding(0.1, 0, bits)),
            call("act", f"aten.{act}.default", Ref("view"), encoding=FINE),
        ),
        X,
    )


def steps(act: str, *, bits: int = 8) -> float:
    """The floor of an activation in steps."""
    taps = Taps({at("mul"): ((X / 0.1).round() * 0.1)}, {}, half=False)
    return evaluate_locally(net(act, bits=bits), taps).floors[at("act")].rms / FINE.scales[0]


@pytest.mark.parametrize("act", ["sqrt", "sigmoid", "floor", "neg"])
def test_what_is_looked_up_by_8_bits_is_as_exact_as_its_encoding(act: str) -> None:
    assert steps(act) == pytest.approx(APART, rel=1e-5)


@pytest.mark.parametrize("act", ["tanh", "sigmoid"])
def test_there_is_no_table_for_16_bits(act: str) -> None:
    assert steps(act, bits=16) > 1.1 * APART


def test_a_root_of_16_bits_is_rounded_once_steep_as_it_is_at_zero() -> None:
    assert steps("sqrt", bits=16) == pytest.approx(APART, rel=1e-5)


def behind_a_sum(act: str) -> float:
    """The floor, in steps, of an activation behind a matrix product."""
    nodes = (
        INPUT,
        replace(INPUT, name="y"),
        call("mm", "aten.mm.default", Ref("x"), Ref("y"), encoding=COARSE),
        call("view", "aten.view.default", Ref("mm"), Seq(items=(-1,)), encoding=COARSE),
        call("act", f"aten.{act}.default", Ref("view"), encoding=FINE),
    )
    tap = (X[:, None] / 0.1).round() * 0.1
    taps = Taps({at("mm"): tap}, {at("mm"): COARSE}, half=False)
    whole = program(nodes, X[:, None], torch.ones(1, 1))
    return evaluate_locally(whole, taps).floors[at("act")].rms / FINE.scales[0]


def test_what_is_fused_with_a_sum_reads_it_before_it_is_rounded() -> None:
    """The fused relu is that of the sum itself, the other one that of the sum's rounding."""
    fused, apart = X.clamp(min=0), ((X / 0.1).round() * 0.1).clamp(min=0)
    off = float((fused - apart).square().mean().sqrt()) / FINE.scales[0]
    assert off > 3 * APART
    assert behind_a_sum("relu") == pytest.approx(math.hypot(APART, off), rel=0.05)
    assert behind_a_sum("sqrt") > 2 * APART
    assert behind_a_sum("leaky_relu") == pytest.approx(math.hypot(APART, off), rel=0.05)

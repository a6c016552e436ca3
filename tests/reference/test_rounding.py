"""What an encoding does to values, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from qnndbg.execute.rounding import channel_axis, grid_of, rounding_of
from qnndbg.model.graph import Atom, Node, Ref
from tests.reference.programs import call

QUANTISE = "quantized_decomposed.quantize_per_tensor.default"
UINT8 = Atom("dtype", "uint8")


def quantise(*numbers: float) -> Node:
    return call("q", QUANTISE, Ref("x"), *numbers, UINT8)


def test_grid_of_a_quantise_node() -> None:
    assert grid_of(quantise(0.5, 10, 0, 255)) == (-5.0, 122.5, 8)
    assert grid_of(quantise(0.01, 0, -32768, 32767)) == pytest.approx((-327.68, 327.67, 16))
    assert grid_of(quantise(0.5, 0, -8, 7)) == (-4.0, 3.5, 4)


@pytest.mark.parametrize(
    "node",
    [
        call(
            "q", "quantized_decomposed.quantize_per_channel.default", Ref("x"), Ref("s"), Ref("z"), 0, 0, 255
        ),
        call("q", "quantized_decomposed.quantize_per_tensor.tensor", Ref("x"), Ref("s"), Ref("z"), 0, 255),
        call("q", "aten.relu.default", Ref("x")),
    ],
)
def test_other_nodes_have_no_grid(node: Node) -> None:
    assert grid_of(node) is None


GRID = (0.0, 3.0, 2)
"""0, 1, 2 and 3."""


def test_clipped_elements_and_their_share_of_the_error() -> None:
    exact = torch.tensor([0.5, 1.5, 5.0, -1.0])
    rounded = torch.tensor([0.0, 2.0, 3.0, 0.0])  # off by 0.5, 0.5, 2 and 1: squares sum up to 5.5
    found = rounding_of(exact, rounded, GRID, axis=0)
    assert (found.bits, found.clipped) == (2, 0.5)
    assert found.clipped_energy == pytest.approx(5.0 / 5.5)
    assert found.range_used == pytest.approx(6.0 / 3.0)
    assert (found.channel, found.channels, found.spread) == (None, 0, 1.0)


def test_half_a_step_beyond_the_range_is_rounded_and_not_clipped() -> None:
    exact = torch.tensor([-0.49, 3.49, -0.51, 3.51])
    rounded = torch.tensor([0.0, 3.0, 0.0, 3.0])
    found = rounding_of(exact, rounded, GRID, axis=0)
    assert found.clipped == 0.5
    assert found.clipped_energy == pytest.approx((2 * 0.51**2) / (2 * 0.51**2 + 2 * 0.49**2))


def test_infinities_are_left_out() -> None:
    exact = torch.tensor([0.5, -math.inf, 1.5, math.inf, math.nan, 5.0])
    rounded = torch.tensor([0.0, 0.0, 2.0, 3.0, 0.0, 3.0])
    found = rounding_of(exact, rounded, GRID, axis=0)
    assert found.clipped == pytest.approx(1 / 6)
    assert found.clipped_energy == pytest.approx(4.0 / 4.5)
    assert found.range_used == pytest.approx(5.0 / 3.0)


def test_zero_belongs_to_the_range_that_is_used() -> None:
    exact = torch.tensor([2.0, 2.4])  # from 0 to 2.4 of 3, and not from 2 on
    assert rounding_of(exact, exact.round(), GRID, axis=0).range_used == pytest.approx(0.8)
    assert rounding_of(-exact, -exact.round(), (-6.0, 0.0, 2), axis=0).range_used == pytest.approx(0.4)


def test_no_error_has_no_shares() -> None:
    found = rounding_of(torch.ones(2, 3), torch.ones(2, 3), GRID, axis=1)
    assert (found.clipped, found.clipped_energy, found.channel_share) == (0.0, 0.0, 0.0)


def test_without_a_grid_nothing_is_clipped() -> None:
    found = rounding_of(torch.tensor([9.4]), torch.tensor([9.0]), None, axis=0)
    assert (found.bits, found.clipped, found.range_used) == (0, 0.0, 1.0)


def test_channel_that_stands_out() -> None:
    exact = torch.tensor([[1.0, -40.0, 0.5], [2.0, 10.0, -0.5], [-4.0, 3.0, 1.0]])  # peaks 4, 40 and 1
    rounded = exact + torch.tensor([[0.0, 2.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    found = rounding_of(exact, rounded, (-50.0, 50.0, 8), axis=1)
    assert (found.channel, found.channels) == (1, 3)
    assert found.channel_share == pytest.approx(4.0 / 5.0)
    assert found.spread == pytest.approx(40.0 / 4.0)


def test_axis_of_the_channels() -> None:
    exact = torch.tensor([[1.0, 1.0], [8.0, 8.0], [2.0, 2.0]])
    rounded = exact + torch.tensor([[0.0, 0.0], [0.1, 0.1], [0.0, 0.0]])
    assert rounding_of(exact, rounded, None, axis=0).channel == 1
    assert rounding_of(exact, rounded, None, axis=0).spread == pytest.approx(4.0)
    assert rounding_of(exact, rounded, None, axis=1).channel == 0


@pytest.mark.parametrize(
    ("shape", "op", "axis"),
    [
        ((1, 8, 4, 4), "aten.add.Tensor", 1),
        ((1, 8, 4), "aten.conv1d.default", 1),
        ((1, 4, 8), "aten.linear.default", -1),
        ((4, 8), "aten.linear.default", -1),
    ],
)
def test_which_axis_a_user_calls_channels(shape: tuple[int, ...], op: str, axis: int) -> None:
    assert channel_axis(torch.zeros(shape), op) == axis


def test_all_channels_but_one_at_zero() -> None:
    found = rounding_of(torch.tensor([[0.0, 0.0, 5.0]]), torch.tensor([[0.0, 0.0, 4.0]]), None, axis=1)
    assert (found.channel, math.isfinite(found.spread)) == (2, True)

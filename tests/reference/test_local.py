"""What an op read on the HTP, told from what was dumped: on chips made by hand, whose ways are known."""

from __future__ import annotations

import math

import pytest
import torch
from msgspec.structs import replace

from qnndbg.execute.local import Local, Taps, distance, evaluate_locally, inputs_of
from qnndbg.execute.noise import half_of
from qnndbg.execute.program import Place, Program
from qnndbg.model.graph import Graph, Node, Output, Ref, Seq
from tests.reference.programs import INPUT, at, call, encoding, program

X = torch.linspace(-4, 4, 801)
CLIPS, WIDE = encoding(0.01), encoding(0.05)  # from -1.28 to 1.27, and from -6.4 to 6.35


def fusing_net(x: torch.Tensor) -> Program:
    """A product whose encoding clips, and a hardswish and a sum that read it."""
    return program(
        (
            INPUT,
            call("mul", "aten.mul.Tensor", Ref("x"), 1.0, encoding=CLIPS),
            call("hardswish", "aten.hardswish.default", Ref("mul"), encoding=WIDE),
            call("add", "aten.add.Tensor", Ref("hardswish"), Ref("hardswish"), encoding=WIDE),
        ),
        x,
    )


def rounded(value: torch.Tensor, scale: float) -> torch.Tensor:
    """By the formula of an encoding with the zero point 128."""
    return ((value / scale).round().clamp(-128, 127) * scale).float()


def hardswish(x: torch.Tensor) -> torch.Tensor:
    return x * (x + 3).clamp(0, 6) / 6


def on_a_chip(*, fuses: bool) -> tuple[Local, dict[Place, torch.Tensor]]:
    mul = rounded(X, 0.01)
    act = rounded(hardswish(X if fuses else mul), 0.05)
    values = {at("mul"): mul, at("hardswish"): act, at("add"): rounded(2 * act, 0.05)}
    encodings = {at("mul"): CLIPS, at("hardswish"): WIDE, at("add"): WIDE}
    return evaluate_locally(fusing_net(X), Taps(values, encodings, half=False)), values


def test_what_a_fused_op_read_is_found_and_marked() -> None:
    local, values = on_a_chip(fuses=True)
    inside = (X > -1.28) & (X < 1.27)
    assert set(local.read) == {at("mul")}
    assert torch.allclose(local.read[at("mul")][~inside], X[~inside])
    assert torch.equal(local.read[at("mul")][inside], values[at("mul")][inside])
    for place, tap in values.items():
        assert distance(local.values[place], tap) <= 0.05 * math.sqrt(X.numel()) / 4


def test_an_op_that_read_what_was_dumped_is_not_marked() -> None:
    local, values = on_a_chip(fuses=False)
    assert local.read == {}
    assert all(torch.allclose(local.values[place], tap, atol=1e-6) for place, tap in values.items())


def test_a_fused_op_behind_one_that_was_clipped_is_found() -> None:
    """The first product is clipped for all its users, the second only in the dump."""
    net = program(
        (
            INPUT,
            call("first", "aten.mul.Tensor", Ref("x"), 1.0, encoding=CLIPS),
            call("second", "aten.mul.Tensor", Ref("first"), 1.5, encoding=CLIPS),
            call("hardswish", "aten.hardswish.default", Ref("second"), encoding=WIDE),
        ),
        X,
    )
    first = rounded(X, 0.01)
    act = rounded(hardswish(1.5 * first), 0.05)
    values = {at("first"): first, at("second"): rounded(1.5 * first, 0.01), at("hardswish"): act}
    local = evaluate_locally(
        net, Taps(values, dict.fromkeys(values, CLIPS) | {at("hardswish"): WIDE}, half=False)
    )
    assert set(local.read) == {at("second")}
    # Steps apart at ties only.
    assert distance(local.values[at("hardswish")], act) <= 0.05 * math.sqrt(X.numel()) / 4


def test_an_op_that_is_wrong_in_its_own_way_stays_wrong() -> None:
    mul = rounded(X, 0.01)
    act = rounded(mul.relu(), 0.05)  # another activation
    taps = Taps({at("mul"): mul, at("hardswish"): act}, {at("mul"): CLIPS, at("hardswish"): WIDE}, half=False)
    local = evaluate_locally(fusing_net(X), taps)
    error = (local.values[at("hardswish")] - act).square().mean().sqrt()
    assert float(error) > 3 * local.floors[at("hardswish")].rms


@pytest.mark.parametrize("limit", [65536.0, 131008.0])
def test_overflow_is_read_as_the_chip_read_it(limit: float) -> None:
    x = torch.tensor([1.0, 300.0, -400.0])
    squares = program(
        (
            INPUT,
            call("mul", "aten.mul.Tensor", Ref("x"), 500.0),
            call("half", "aten.mul.Tensor", Ref("mul"), 0.5),
        ),
        x,
    )
    beyond = torch.tensor([500.0, math.inf, -math.inf])
    read = torch.tensor([500.0, limit, -limit])
    local = evaluate_locally(squares, Taps({at("mul"): beyond, at("half"): read / 2}, {}, half=True))
    assert torch.equal(local.values[at("half")], read / 2)
    assert local.values[at("mul")].tolist() == [500.0, 150_000.0, -200_000.0]


def test_an_output_that_overflows_is_handed_out_as_it_was_dumped() -> None:
    x = torch.tensor([1.0, 300.0])
    product = program((INPUT, call("mul", "aten.mul.Tensor", Ref("x"), 500.0)), x)
    dumped = torch.tensor([500.0, 131008.0])
    local = evaluate_locally(product, Taps({at("mul"): dumped}, {}, half=True))
    (result,) = local.results
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, dumped)


def no_load(ref: object) -> torch.Tensor:
    raise AssertionError(ref)


def test_input_and_constant_are_held_as_half_floats() -> None:
    x = torch.tensor([1.0, 1e-9, 2049.0])
    inner = Graph(
        nodes=(replace(INPUT, name="y"), call("neg", "aten.neg.default", Ref("y"))),
        outputs=(Output(value=Ref("neg")),),
    )
    lowered = Node(name="lowered", op="get_attr", target="lowered_module_0")
    outer = Graph(
        nodes=(
            INPUT,
            lowered,
            call("call", "higher_order.executorch_call_delegate", Ref("lowered"), Ref("x"), multiple=True),
            call("get", "operator.getitem", Ref("call"), 0),
        ),
        outputs=(Output(value=Ref("get")),),
        partitions={"lowered_module_0": 0},
    )

    whole = Program(outer, [x], no_load, partitions={0: inner})
    tap = -half_of(x)
    local = evaluate_locally(whole, Taps({at("neg", 0): tap}, {}, half=True))
    place = at("y", 0)
    assert local.held[place].tolist() == [1.0, 0.0, 2048.0]
    assert torch.equal(local.values[place], x)
    assert torch.equal(local.values[at("neg", 0)], tap)
    (result,) = local.results
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, tap)


def test_the_cpu_does_not_round_outside_of_the_delegates() -> None:
    """A program whose q/dq ops were folded into encodings computes what is not delegated in floats."""
    x = torch.tensor([0.21, -0.74])
    inner = Graph(
        nodes=(replace(INPUT, name="y"), call("neg", "aten.neg.default", Ref("y"), encoding=encoding(0.1))),
        outputs=(Output(value=Ref("neg")),),
    )
    outer = Graph(
        nodes=(
            INPUT,
            call("abs", "aten.abs.default", Ref("x"), encoding=encoding(0.1)),
            Node(name="lowered", op="get_attr", target="lowered_module_0"),
            call("call", "higher_order.executorch_call_delegate", Ref("lowered"), Ref("abs"), multiple=True),
            call("get", "operator.getitem", Ref("call"), 0, encoding=encoding(0.1)),
            call("out", "aten.mul.Tensor", Ref("get"), 1.5, encoding=encoding(0.4)),
        ),
        outputs=(Output(value=Ref("out")),),
        partitions={"lowered_module_0": 0},
    )
    whole = Program(outer, [x], no_load, partitions={0: inner}, outside="executed")
    local = evaluate_locally(whole, Taps({}, {}, half=False))
    (result,) = local.results
    assert isinstance(result, torch.Tensor)
    assert result.tolist() == pytest.approx([-0.3, -1.05])
    assert local.values[at("neg", 0)].tolist() == pytest.approx([-0.2, -0.7])
    assert local.values[at("out")].tolist() == pytest.approx([-0.4, -1.2])
    assert {place.node: value.tolist() for place, value in local.unrounded.items()} == {
        "abs": pytest.approx([0.21, 0.74]),
        "out": pytest.approx([-0.3, -1.05]),
    }


def test_without_a_dump_the_computed_value_goes_on() -> None:
    local = evaluate_locally(fusing_net(X), Taps({}, {}, half=False))
    mul = rounded(X, 0.01)
    assert torch.allclose(local.values[at("hardswish")], rounded(hardswish(mul), 0.05), atol=1e-6)


@pytest.mark.parametrize(
    ("value", "tap", "expected"),
    [
        (torch.tensor([1.0, 2.0]), torch.tensor([4.0, 6.0]), 5.0),
        (torch.tensor([[1.0], [2.0]]), torch.tensor([4.0, 6.0]), 5.0),
        (torch.tensor([1.0]), torch.tensor([1.0, 2.0]), math.inf),
        (None, torch.tensor([1.0]), math.inf),
        (torch.tensor([math.nan]), torch.tensor([1.0]), math.inf),
    ],
)
def test_distance(value: torch.Tensor | None, tap: torch.Tensor, expected: float) -> None:
    assert distance(value, tap) == expected


def test_inputs_of_an_op_are_found_in_lists_too() -> None:
    assert inputs_of((Ref("a"), 2, Seq((Ref("b"), Seq((Ref("c"),)))), None)) == ["a", "b", "c"]

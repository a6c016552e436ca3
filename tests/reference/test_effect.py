"""Known errors put into small nets: what each does to the output, against torch's own interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from qnndbg.execute.effect import exact_effects, like, linear_effects
from qnndbg.execute.program import Place, Program
from qnndbg.model.graph import Ref
from tests.reference.conftest import Store
from tests.reference.programs import INPUT, NETS, at, call, encoding, program

LONG = 1e9
SMALL, LARGE = 1e-4, 0.3
"""RMS of the errors over that of the values."""


class Injected(torch.fx.Interpreter):
    """Runs a module with something done to the values of some nodes; notes every float."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        *,
        errors: Mapping[str, torch.Tensor] = {},
        targets: Mapping[str, torch.Tensor] = {},
    ) -> None:
        super().__init__(module)
        self.errors, self.targets = errors, targets
        self.values: dict[str, torch.Tensor] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        value = super().run_node(n)
        if n.op == "call_function" and isinstance(value, torch.Tensor):
            value = self.targets.get(n.name, value + self.errors.get(n.name, torch.zeros(())))
            self.values[n.name] = value
        return value

    def outcome(self, x: torch.Tensor) -> torch.Tensor:
        """The only output."""
        with torch.no_grad():
            (result,) = torch.utils._pytree.tree_leaves(self.run(x))
        assert isinstance(result, torch.Tensor)
        return result


class Faulty:
    """A net, an error at each of its ops, and what these errors do to its output."""

    def __init__(self, store: Store, name: str, size: float) -> None:
        torch.manual_seed(0)
        kind, shape = NETS[name]
        self.x = torch.randn(shape, dtype=torch.float64)
        self.module: Any = torch.export.export(kind().double().eval(), (self.x,), strict=True).module()
        self.program = Program(store.snapshot(self.module), [self.x], store.load)
        plain = Injected(self.module)
        self.right = plain.outcome(self.x)
        self.errors = {
            name: torch.randn_like(value) * value.square().mean().sqrt() * size
            for name, value in plain.values.items()
        }
        wrong = Injected(self.module, errors=self.errors)
        self.direction = wrong.outcome(self.x) - self.right
        self.targets = wrong.values

    def share(self, result: torch.Tensor) -> float:
        """How far an output has gone towards the wrong one."""
        moved = ((result - self.right) * self.direction).sum()
        return float(moved / self.direction.square().sum())

    @property
    def order(self) -> list[Place]:
        return [at(name) for name in self.targets]

    def exact(self, seconds: float = LONG) -> dict[Place, float]:
        targets = {at(name): value for name, value in self.targets.items()}
        with torch.no_grad():
            return exact_effects(self.program, targets, self.order, self.direction, 0, seconds)

    def linear(self) -> dict[Place, float]:
        errors = {at(name): value for name, value in self.errors.items()}
        return linear_effects(self.program, errors, self.direction, 0)


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("name", NETS)
def test_exact_effects_are_the_steps_between_one_more_target_and_the_next(
    name: str, size: float, store: Store
) -> None:
    faulty = Faulty(store, name, size)
    assert len(faulty.order) >= 5
    found, gone = faulty.exact(), 0.0
    for count, place in enumerate(faulty.order, 1):
        put = dict(list(faulty.targets.items())[:count])
        now = faulty.share(Injected(faulty.module, targets=put).outcome(faulty.x))
        assert found[place] == pytest.approx(now - gone, abs=1e-9)
        gone = now
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("name", NETS)
def test_linear_effects_of_small_errors_are_those_of_each_alone(name: str, store: Store) -> None:
    faulty = Faulty(store, name, SMALL)
    found = faulty.linear()
    assert list(found) == faulty.order
    for place in faulty.order:
        alone = {place.node: faulty.errors[place.node]}
        expected = faulty.share(Injected(faulty.module, errors=alone).outcome(faulty.x))
        assert found[place] == pytest.approx(expected, rel=0.02, abs=1e-3)
    assert sum(found.values()) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("name", NETS)
def test_the_two_measures_agree_on_small_errors(name: str, store: Store) -> None:
    faulty = Faulty(store, name, SMALL)
    linear, exact = faulty.linear(), faulty.exact()
    assert all(linear[place] == pytest.approx(exact[place], abs=0.02) for place in faulty.order)


def test_one_error_among_many_ops_makes_all_of_it(store: Store) -> None:
    faulty = Faulty(store, "residual", LARGE)
    only = {name: error if name == "gelu" else error * 0 for name, error in faulty.errors.items()}
    wrong = Injected(faulty.module, errors=only)
    faulty.direction = wrong.outcome(faulty.x) - faulty.right
    faulty.targets = wrong.values
    found = faulty.exact()
    assert found.pop(at("gelu")) == pytest.approx(1.0, abs=1e-9)
    assert max(abs(share) for share in found.values()) < 1e-9


def test_without_time_nothing_is_split(store: Store) -> None:
    assert Faulty(store, "residual", SMALL).exact(seconds=0.0) == {}


X = torch.tensor([0.9, -2.0])


def jump() -> Program:
    """``floor(2 x)`` of 1.8 and -4."""
    return program(
        (
            INPUT,
            call("mul", "aten.mul.Tensor", Ref("x"), 2.0),
            call("floor", "aten.floor.default", Ref("mul")),
        ),
        X,
    )


def test_slope_knows_nothing_of_a_jump() -> None:
    error = torch.tensor([0.3, 0.1])  # 2.1 and -3.9, of which the floor goes from 1 to 2, and stays at -4
    targets = {at("mul"): torch.tensor([2.1, -3.9]), at("floor"): torch.tensor([2.0, -4.0])}
    direction = torch.tensor([1.0, 0.0])
    linear = linear_effects(jump(), {at("mul"): error}, direction, 0)
    exact = exact_effects(jump(), targets, list(targets), direction, 0, LONG)
    assert linear == {at("mul"): 0.0}
    assert exact == {at("mul"): 1.0, at("floor"): 0.0}


def test_integers_have_no_slope_and_an_exact_effect() -> None:
    chosen = program(
        (INPUT, call("neg", "aten.neg.default", Ref("x")), call("arg", "aten.argmax.default", Ref("neg"))), X
    )
    direction = torch.tensor(-1.0)
    targets = {at("neg"): torch.tensor([3.0, 2.0])}  # the largest is now the first
    assert linear_effects(chosen, {at("neg"): torch.tensor([3.9, 0.0])}, direction, 0) == {}
    assert exact_effects(chosen, targets, list(targets), direction, 0, LONG) == {at("neg"): 1.0}


def test_slope_goes_straight_through_rounding_and_ends_where_it_clips() -> None:
    grid = encoding(0.5, zero_point=0)  # from 0 on
    rounded = program(
        (
            INPUT,
            call("mul", "aten.mul.Tensor", Ref("x"), 1.0, encoding=grid),
            call("neg", "aten.neg.default", Ref("mul")),
        ),
        X,
    )
    for direction, expected in ((torch.tensor([1.0, 0.0]), -0.25), (torch.tensor([0.0, 1.0]), 0.0)):
        found = linear_effects(rounded, {at("x"): torch.tensor([0.25, 0.25])}, direction, 0)
        assert found[at("x")] == pytest.approx(expected)


def test_result_that_cannot_be_computed_is_an_error() -> None:
    broken = program((INPUT, call("bad", "aten.nothing.default", Ref("x"))), X)
    with pytest.raises(ValueError, match="output 0"):
        exact_effects(broken, {}, [], X, 0, LONG)


@pytest.mark.parametrize(
    ("value", "computed", "expected"),
    [
        (torch.ones(1), torch.zeros(()), torch.ones(())),
        (
            torch.ones(2, dtype=torch.int32),
            torch.zeros(2, dtype=torch.int64),
            torch.ones(2, dtype=torch.int64),
        ),
        (torch.ones(3), torch.zeros(2), torch.zeros(2)),
        (torch.ones(3), None, torch.ones(3)),
    ],
)
def test_foreign_value_as_the_next_op_expects_it(
    value: torch.Tensor, computed: torch.Tensor | None, expected: torch.Tensor
) -> None:
    found = like(value, computed)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert torch.equal(found, expected)

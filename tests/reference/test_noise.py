"""The noise floor, by formulas in float64, and against what rounding does to real ops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from qnndbg.execute.local import Taps, evaluate_locally
from qnndbg.execute.noise import MOVES, floor_of, half_of, perturbed, rms, ulp16
from qnndbg.execute.program import Program
from qnndbg.model.graph import Node, Ref
from tests.reference.programs import INPUT, at, call, encoding, program

APART = math.sqrt(1 / 12 + 1 / 12)
"""RMS in steps of the difference of two roundings, each of the variance 1/12 of a uniform one."""
LINEAR, EXP, VIEW = (call(n, f"aten.{n}.default") for n in ("linear", "exp", "view_copy"))
GRID = encoding(0.25)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def halves(count: int = 4000) -> torch.Tensor:
    """Half floats of every exponent."""
    bits = np.random.default_rng(0).integers(0, 2**16, count, dtype=np.uint16)
    values = bits.view(np.float16)
    return torch.from_numpy(values[np.isfinite(values)].astype(np.float32))


def floats() -> torch.Tensor:
    """Of all magnitudes that half floats have, and of some that are too small."""
    wide = torch.Generator().manual_seed(1)
    return torch.randn(4000, generator=wide) * 2.0 ** (torch.rand(4000, generator=wide) * 40 - 26)


def test_spacing_is_that_of_half_floats() -> None:
    values = halves()
    with np.errstate(over="ignore"):
        expected = np.spacing(np.abs(values.numpy()).astype(np.float16)).astype(np.float32)
    # That of the largest one is to what IEEE has no number for.
    finite = np.isfinite(expected)
    assert finite.sum() > 3000
    assert np.array_equal(ulp16(values).numpy()[finite], expected[finite])


def test_half_float_is_ieees_as_far_as_that_goes() -> None:
    values = floats()
    expected = values.numpy().astype(np.float16).astype(np.float32)
    finite = np.isfinite(expected)
    assert finite.sum() > 3500
    assert np.array_equal(half_of(values).numpy()[finite], expected[finite])


@pytest.mark.parametrize(
    ("value", "held"),
    [(65504.0, 65504.0), (65520.0, 65536.0), (70001.0, 70016.0), (131008.0, 131008.0), (1e30, 131008.0)],
)
def test_half_float_has_one_exponent_more_and_saturates_there(value: float, held: float) -> None:
    assert half_of(torch.tensor([value, -value])).tolist() == [held, -held]


def test_infinity_saturates_and_integers_stay() -> None:
    assert half_of(torch.tensor([math.inf, -math.inf])).tolist() == [131008.0, -131008.0]
    assert half_of(torch.tensor([2**20 + 1])).tolist() == [2**20 + 1]


def test_perturbed_value_is_off_by_at_most_half_a_step_evenly() -> None:
    value = torch.linspace(-20, 20, 100_000)
    off = (perturbed(value, GRID, generator(), half=False) - value).double() / 0.25
    assert float(off.abs().max()) <= 0.5 + 1e-4
    assert float(off.std()) == pytest.approx(math.sqrt(1 / 12), rel=0.02)
    assert float(off.mean()) == pytest.approx(0.0, abs=0.01)


def test_perturbed_half_float_is_off_by_at_most_half_its_spacing() -> None:
    value = halves().clamp(-3e4, 3e4)
    off = (perturbed(value.double(), None, generator(), half=True) - value.double()).abs()
    assert bool((off <= ulp16(value.double()) / 2).all())
    assert float(off.max()) > 0


@pytest.mark.parametrize(("value", "half"), [(torch.arange(9), True), (torch.ones(9), False)])
def test_what_is_exact_is_not_perturbed(value: torch.Tensor, half: bool) -> None:
    assert torch.equal(perturbed(value, None, generator(), half=half), value)


def floor(
    node: Node, exact: torch.Tensor, *, moved: float = 0.0, quantised: bool = False, half: bool = False
) -> float:
    return floor_of(node, exact, exact + moved, GRID if quantised else None, half=half).rms


X = torch.randn(500, generator=torch.Generator().manual_seed(0)) * 10
SPACING = APART * math.sqrt(
    float(np.mean(np.spacing(np.abs(X.numpy()).astype(np.float16)).astype(np.float64) ** 2))
)
"""RMS of what two roundings to half floats make of it."""
RMS = math.sqrt(float(X.double().square().mean()))
EPS32 = float(np.finfo(np.float32).eps)


def test_floor_of_a_quantised_op_is_two_roundings_and_what_it_makes_of_those_before() -> None:
    assert floor(EXP, X, quantised=True) == pytest.approx(0.25 * APART)
    assert floor(EXP, X, moved=0.5, quantised=True) == pytest.approx(math.hypot(0.25 * APART, 0.5), rel=1e-5)


def test_floor_of_a_sum_of_integers_is_its_own_rounding() -> None:
    assert floor(LINEAR, X, moved=0.5, quantised=True) == pytest.approx(0.25 * APART)
    assert floor(VIEW, X, moved=0.5, quantised=True) == pytest.approx(0.25 * APART)


def test_floor_in_half_floats() -> None:
    assert floor(EXP, X, half=True) == pytest.approx(SPACING, rel=0.01)
    assert floor(EXP, X, moved=0.5, half=True) == pytest.approx(math.hypot(SPACING, 0.5), rel=0.01)


def test_sums_of_half_floats_are_wide_enough_to_add_no_noise() -> None:
    assert floor(LINEAR, X, moved=0.5, half=True) == pytest.approx(SPACING, rel=0.01)


@pytest.mark.parametrize("kind", sorted(MOVES))
def test_what_moves_half_floats_may_round_what_was_dumped_before_it_was(kind: str) -> None:
    moving = call("m", f"aten.{kind}.default")
    assert floor(moving, X, moved=0.5, half=True) == pytest.approx(SPACING, rel=0.01)


def test_floor_of_one_element_is_a_step_and_the_largest_noise() -> None:
    moved = X.clone()
    moved[7] += 3.0
    assert floor_of(EXP, X, moved, GRID, half=False).peak == pytest.approx(3.25, rel=1e-5)
    assert floor_of(LINEAR, X, moved, GRID, half=False).peak == pytest.approx(0.25)


def test_floor_in_float32_is_two_of_its_roundings() -> None:
    assert floor(EXP, X) == pytest.approx(2 * EPS32 * RMS)


@pytest.mark.parametrize("value", [torch.arange(5), torch.zeros(0), torch.zeros(3, dtype=torch.bool)])
def test_integers_and_nothing_may_not_err(value: torch.Tensor) -> None:
    for half in (True, False):
        assert floor_of(EXP, value, value, None, half=half) == (0.0, 0.0)


FINE, COARSE = encoding(0.05), encoding(0.1)


def gelu_net(x: torch.Tensor) -> Program:
    return program(
        (
            INPUT,
            call("mul", "aten.mul.Tensor", Ref("x"), 0.9, encoding=FINE),
            call("gelu", "aten.gelu.default", Ref("mul"), encoding=COARSE),
        ),
        x,
    )


def excess(off: torch.Tensor) -> float:
    """Of a gelu that is off by so many steps of its encoding from the rounded formula."""
    x = torch.linspace(-4, 4, off.numel())
    mul = (x * 0.9 / 0.05).round() * 0.05
    exact = 0.5 * mul.double() * (1 + torch.erf(mul.double() / 2**0.5))
    gelu = ((exact / 0.1).round() + off) * 0.1
    taps = Taps({at("mul"): mul, at("gelu"): gelu.float()}, {at("mul"): FINE, at("gelu"): COARSE}, half=False)
    local = evaluate_locally(gelu_net(x), taps)
    error = (local.values[at("gelu")].double() - gelu).square().mean().sqrt()
    return float(error) / local.floors[at("gelu")].rms


def test_an_error_of_two_steps_is_beyond_rounding() -> None:
    assert excess(torch.full((2000,), 2.0)) > 3.0


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_step_here_and_there_is_rounding(share: float) -> None:
    random = torch.rand(2000, generator=generator())
    sign = torch.where(torch.rand(2000, generator=generator()) < 0.5, -1.0, 1.0)
    assert 0.1 < excess(torch.where(random < share, sign, 0.0)) < 3.0


def test_a_gelu_by_the_formula_has_no_error() -> None:
    assert excess(torch.zeros(2000)) < 0.2


def test_what_cancels_may_err_by_what_the_roundings_before_it_become() -> None:
    x = torch.linspace(1.0, 1.001, 300).double()
    chain = program(
        (
            INPUT,
            call("abs", "aten.abs.default", Ref("x")),
            call("log", "aten.log.default", Ref("abs")),
        ),
        x,
    )
    held = half_of(x)
    taps = Taps({at("abs"): held, at("log"): held.log()}, {}, half=True)
    floors = evaluate_locally(chain, taps).floors
    # Half floats from 1 on are 2**-10 apart, by which the logarithm is as uncertain, though it is so small.
    assert floors[at("log")].rms == pytest.approx(2.0**-10 * math.sqrt(1 / 12), rel=0.1)


@pytest.mark.parametrize("op", ["add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor"])
def test_arithmetic_on_known_values_rounds_once(op: str) -> None:
    x = torch.linspace(1.0, 1.001, 300).double()
    chain = program(
        (INPUT, call("abs", "aten.abs.default", Ref("x")), call("made", f"aten.{op}", Ref("abs"), -1.0)), x
    )
    held = half_of(x)
    exact = {"add": held - 1.0, "sub": held + 1.0, "mul": -held, "div": -held}[op.partition(".")[0]]
    taps = Taps({at("abs"): held, at("made"): half_of(exact)}, {}, half=True)
    made = evaluate_locally(chain, taps).floors[at("made")]
    # The root of the mean square of an error that is uniform within half a unit in the last place, twice.
    assert made.rms == pytest.approx(rms(ulp16(exact)) * math.sqrt(2 / 12), rel=1e-6)

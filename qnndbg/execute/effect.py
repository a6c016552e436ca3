"""What the error made at one place does to an output, as a share of that output's error.

Two measures. The linear one takes a single backward pass for all places: with ``e`` the error of the
output and ``d = e / ‖e‖``, an error ``δ`` made at a value ``v`` contributes ``⟨d·∂out/∂v, δ⟩ / ‖e‖``. The
exact one puts the target's values in up to a place and computes the rest; the steps between consecutive
places telescope to the whole error by construction, whatever the net does to it.

Owns the measures and their budget; refuses to say which place is to blame.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from qnndbg.execute.program import Place, Program
from qnndbg.execute.reference import Computed

Values = Mapping[Place, torch.Tensor]


def linear_effects(
    program: Program, errors: Values, direction: torch.Tensor, output: int
) -> dict[Place, float]:
    """The linear effect of every error that is a float, by one backward pass.

    Args:
        program: the reference, on its own values.
        errors: what is added to the value of each place; of its shape.
        direction: the error of the output, which gives direction and unit.
        output: which output.
    """
    taps: dict[Place, torch.Tensor] = {}

    def tapped(place: Place, computed: Computed) -> torch.Tensor | None:
        value = computed.value
        if value is None or not value.is_floating_point() or place not in errors:
            return value
        taps[place] = torch.zeros_like(value, requires_grad=True)
        return value.detach() + taps[place] if not value.requires_grad else value + taps[place]

    with torch.enable_grad():
        result = program.run(tapped).results[output]
        if not isinstance(result, torch.Tensor) or not result.requires_grad:
            return {}
        norm = direction.double().norm()
        found = torch.autograd.grad(
            result, list(taps.values()), (direction / norm).to(result.dtype), allow_unused=True
        )
    return {
        place: float((gradient.double() * errors[place].double()).sum() / norm)
        for place, gradient in zip(taps, found, strict=True)
        if gradient is not None and gradient.shape == errors[place].shape
    }


def exact_effects(
    program: Program,
    targets: Values,
    order: Sequence[Place],
    direction: torch.Tensor,
    output: int,
    seconds: float,
) -> dict[Place, float]:
    """The telescoping effect of every place; those of a stretch that is too costly to split are left out.

    Args:
        program: the reference.
        targets: the other side's value of each place.
        order: the places in the order of execution.
        direction: error of the output, target minus reference.
        output: which output.
        seconds: no further stretch is split after this time, the largest having been split first.
    """
    start = time.monotonic()
    reference = _result(program, output)
    norm = direction.double().norm()

    def moved(count: int) -> float:
        """How far the output has gone with the first places on the target's values; 1 is all the way."""
        put = set(order[:count])
        result = _result(program, output, lambda place: targets[place] if place in put else None)
        change = result.double() - reference.double()
        return float((change * direction.double()).sum() / norm**2)

    stretches = [_Stretch(0, len(order), 0.0, moved(len(order)))]
    found: dict[Place, float] = {}
    while stretches and time.monotonic() - start < seconds:
        stretch = max(stretches, key=lambda s: (abs(s.gain), s.stop - s.start, -s.start))
        stretches.remove(stretch)
        if stretch.stop - stretch.start == 1:
            found[order[stretch.start]] = stretch.gain
            continue
        stretches += stretch.split(moved)
    for stretch in stretches:
        if stretch.stop - stretch.start == 1:
            found[order[stretch.start]] = stretch.gain
    return found


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Consecutive places, and how far the output has gone before and behind them."""

    start: int
    stop: int
    before: float
    after: float

    @property
    def gain(self) -> float:
        return self.after - self.before

    def split(self, moved: Callable[[int], float]) -> list[_Stretch]:
        middle = (self.start + self.stop) // 2
        half = moved(middle)
        return [
            _Stretch(self.start, middle, self.before, half),
            _Stretch(middle, self.stop, half, self.after),
        ]


def _result(
    program: Program, output: int, value_of: Callable[[Place], torch.Tensor | None] | None = None
) -> torch.Tensor:
    def put(place: Place, computed: Computed) -> torch.Tensor | None:
        value = value_of(place) if value_of is not None else None
        return computed.value if value is None else like(value, computed.value)

    result: Any = program.run(put).results[output]
    if not isinstance(result, torch.Tensor):
        raise ValueError(f"output {output} could not be computed")
    return result


def like(value: torch.Tensor, computed: torch.Tensor | None) -> torch.Tensor:
    """A foreign value in the dtype and rank that the next op expects; QNN has no 0-d tensor or int64."""
    if computed is None:
        return value
    if value.shape != computed.shape and value.numel() == computed.numel():
        value = value.reshape(computed.shape)
    return value.to(computed.dtype) if value.shape == computed.shape else computed

"""Splits the error of each output over the places where errors are made, given the two sides.

Owns the measures' budget and what is said of each place; refuses to know which step the sides belong to.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from qnndbg.execute.effect import exact_effects, like, linear_effects
from qnndbg.execute.local import inputs_of
from qnndbg.execute.noise import Floor, half_of, ulp16
from qnndbg.execute.program import Place, Program
from qnndbg.execute.reference import Computed
from qnndbg.model.attribution import Attribution, Effect, Rounding, Step
from qnndbg.model.graph import Node, Ref
from qnndbg.model.limits import FP16_MAX

MAX_OUTPUTS = 8
"""Outputs whose error is split, the worst ones; a decoder has one for each layer's cache."""
SECONDS = 10.0
"""What the exact effects of one output may take."""
CONFIRM = 5.0
"""Exact effects that take fewer seconds are found though the linear ones explain the error already."""
EXPLAINED = 0.02
ROLES = ("", "weight", "bias")
"""What the arguments of an op with weights are."""
WEIGHTED = frozenset({"conv1d", "conv2d", "conv3d", "convolution", "linear"})
CAUSED = 0.1
"""An overflow that makes less than this part of an error has not caused it."""
LARGEST = float(np.finfo(np.float64).max)
"""JSON has no infinity."""
LOST = 2.0**-8
"""A half float that is off by more than this has less than eight bits left."""


@dataclass(slots=True)
class Side:
    """The other side's values at the places of a reference program, and the errors that are made there."""

    targets: dict[Place, torch.Tensor] = field(default_factory=dict)
    errors: dict[Place, torch.Tensor] = field(default_factory=dict)
    floors: Mapping[Place, Floor] = field(default_factory=dict)
    roundings: dict[Place, Rounding] = field(default_factory=dict)
    fused: frozenset[Place] = frozenset()
    changes: Mapping[Place, str] = field(default_factory=dict)
    """How constants come to be others there, as half a sentence."""
    half: bool = False
    """Floats in the delegates are half floats."""


def attributed(
    program: Program,
    side: Side,
    results: Sequence[object],
    step: Step,
    names: Mapping[Place, str],
    method: str,
    sample: int,
) -> Iterator[Attribution]:
    """Split the error of each of the worst outputs.

    Args:
        program: the reference.
        side: the other side's values at its places.
        results: the outputs on the other side.
        step: which the two sides are of.
        names: QNN tensor of each place, where it has one.
        method: whose outputs they are.
        sample: of which inputs.
    """
    described = _Described(program)
    outputs = _Outputs(described.results, results)
    order = [place for place in described.order if place in side.targets and described.differs(place, side)]
    for output in outputs.worst(MAX_OUTPUTS):
        direction = outputs.directions[output]
        linear = linear_effects(program, side.errors, direction, output)
        exact = {}
        if order and not (_explains(linear) and described.seconds * len(order) > CONFIRM):
            exact = exact_effects(program, side.targets, order, direction, output, SECONDS)
        effects = described.effects(side, names, order, linear, exact)
        yield Attribution(
            step=step,
            method=method,
            sample=sample,
            output=output,
            error=float(direction.double().norm()),
            signal=float(outputs.signals[output]),
            explained=sum(linear.values()) if linear else None,
            effects=tuple(effects),
        )


def _explains(linear: Mapping[Place, float]) -> bool:
    """Whether the linear effects add up to the whole error, so that nothing is left for the exact ones."""
    return abs(sum(linear.values()) - 1.0) <= EXPLAINED


class _Outputs:
    """The outputs that differ by a finite error, and by how much."""

    def __init__(self, reference: Sequence[object], target: Sequence[object]) -> None:
        self.directions: dict[int, torch.Tensor] = {}
        self.signals: dict[int, float] = {}
        for number, (one, other) in enumerate(zip(reference, target, strict=False)):
            if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
                continue
            error = like(other, one).double() - one.double()
            if 0 < float(error.norm()) < float("inf"):
                self.directions[number] = error
                self.signals[number] = float(one.double().norm())

    def worst(self, count: int) -> list[int]:
        """The numbers of the outputs with the largest relative errors, in order."""

        def relative(number: int) -> float:
            error = float(self.directions[number].norm())
            return error / self.signals[number] if self.signals[number] else float("inf")

        return sorted(sorted(self.directions, key=lambda n: (-relative(n), n))[:count])


class _Described:
    """A run of the reference, with what is to be said of each of its places."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.order: list[Place] = []
        self.nodes: dict[Place, Node] = {}
        self.infinite: dict[Place, dict[Place, torch.Tensor]] = {}
        """Each value that overflows, and what the program computes if it is infinite there."""
        self.values: dict[Place, torch.Tensor] = {}
        self.users: dict[Place, tuple[Node, int]] = {}
        """The first op that reads each value, and as which argument."""
        start = time.monotonic()
        self.results = program.run(self._note).results
        self.seconds = time.monotonic() - start
        """What one execution takes."""

    def _note(self, place: Place, computed: Computed) -> torch.Tensor | None:
        if computed.value is not None:
            self.order.append(place)
            self.nodes[place], self.values[place] = computed.node, computed.value
            for position, arg in enumerate(computed.node.args):
                if isinstance(arg, Ref):
                    self.users.setdefault(Place(place.partition, arg.node, 0), (computed.node, position))
        return computed.value

    def differs(self, place: Place, side: Side) -> bool:
        """Whether the other side has something else here; what is equal can have no effect."""
        value = self.values[place]
        return not torch.equal(like(side.targets[place], value), value)

    def effects(
        self,
        side: Side,
        names: Mapping[Place, str],
        order: Sequence[Place],
        linear: Mapping[Place, float],
        exact: Mapping[Place, float],
    ) -> list[Effect]:
        """The effect of each place; what an op makes of an overflow counts where the overflow began."""
        sums: dict[Place, list[float | None]] = {place: [None, None] for place in order}
        for place in order:
            pair = sums.setdefault(self._began(place, side), [None, None])
            for i, found in enumerate((linear.get(place), exact.get(place))):
                if found is not None:
                    pair[i] = (pair[i] or 0.0) + found
        ordered = [place for place in self.order if place in sums]
        return [self._effect(place, side, names, *sums[place]) for place in ordered]

    def _began(self, place: Place, side: Side) -> Place:
        """Where the overflow began that an op reads; the place itself if it reads none."""
        while side.half and place.partition is not None:
            beyond = [s for s in self._sources(place) if self._overflows(s) and self._matters(s, place, side)]
            if not beyond:
                break
            place = beyond[0]
        return place

    def _overflows(self, place: Place) -> bool:
        value = self.values[place]
        return value.is_floating_point() and value.numel() > 0 and float(value.abs().max()) > FP16_MAX

    def _matters(self, source: Place, place: Place, side: Side) -> bool:
        """Whether the overflow changes what the op makes of it, as that of a mask does not."""
        if source not in self.infinite:
            found = self.infinite.setdefault(source, {})

            def widen(at: Place, computed: Computed) -> torch.Tensor | None:
                value = computed.value
                if value is not None:
                    beyond = value.abs() > FP16_MAX if at == source else None
                    found[at] = value = (
                        value if beyond is None else value.where(~beyond, value.sign() * math.inf)
                    )
                return value

            self.program.run(widen)
        value, widened = self.values[place], self.infinite[source].get(place)
        if place not in side.targets or widened is None:
            return True
        wrong = like(side.targets[place], value).double() - value.double()
        moved = (like(widened, value).double() - value.double())[torch.isfinite(value)]
        return not bool(torch.isfinite(moved).all()) or _rms(moved) > CAUSED * _rms(wrong)

    def _sources(self, place: Place) -> list[Place]:
        found = [Place(place.partition, name, 0) for name in inputs_of(self.nodes[place].args)]
        return [source for source in found if source in self.values]

    def _effect(
        self,
        place: Place,
        side: Side,
        names: Mapping[Place, str],
        linear: float | None,
        exact: float | None,
    ) -> Effect:
        node, error, accumulated = self.nodes[place], side.errors.get(place), None
        if place in side.targets:
            accumulated = like(side.targets[place], self.values[place]).double() - self.values[place].double()
            error = accumulated if error is None else error
        constant, floor = node.constant is not None, side.floors.get(place)
        return Effect(
            kind="op" if node.op == "call_function" else "constant" if constant else "input",
            name=names.get(place, node.name),
            node=node.name,
            partition=place.partition,
            output=place.output,
            **self._said(place),
            error=_rms(error),
            accumulated=_rms(accumulated),
            floor=floor.rms if floor is not None else 0.0,
            peak_error=_largest(error),
            peak_floor=floor.peak if floor is not None else None,
            signal=_rms(self.values[place]),
            linear=linear,
            exact=exact,
            rounding=side.roundings.get(place),
            fused=place in side.fused,
            change=side.changes.get(place, ""),
            **(self._half(place, side) if side.half and place.partition is not None else {}),
        )

    def _said(self, place: Place) -> dict[str, Any]:
        """What a user knows a place by: of a constant, the op that reads it and as what."""
        node, role = self.nodes[place], ""
        if node.constant is not None and place in self.users:
            node, position = self.users[place]
            role = ROLES[position] if position < len(ROLES) else ""
        return {
            "op": node.target if node.op == "call_function" else "",
            "role": role if node.target.split(".")[1:2] and node.target.split(".")[1] in WEIGHTED else "",
            "module": node.origin.module_path,
            "source": node.origin.source,
            "state": next((s.node for s in self._sources(place) if self.nodes[s].role == "state"), ""),
        }

    def _half(self, place: Place, side: Side) -> dict[str, Any]:
        """What half floats make of a place."""
        value = self.values[place]
        if not value.is_floating_point() or not value.numel():
            return {}
        inputs = [self.values[source] for source in self._sources(place)]
        lost = (half_of(value) - value).abs() > LOST * value.abs()
        return {
            "half": True,
            "peak": min(float(value.abs().nan_to_num().max()), LARGEST),
            "flushed": _flushed(value, lost & (value.abs() < 1)),
            "faint": max(_faint(v) for v in (value, *inputs)),
            "integers": bool(inputs) and all(_whole(v) for v in inputs),
            "stagnates": any(_stagnates(value, v) for v in inputs),
        }


def _whole(value: torch.Tensor) -> bool:
    return not value.is_floating_point() or bool((value == value.round()).all())


def _flushed(value: torch.Tensor, lost: torch.Tensor) -> float:
    """The share of elements that are lost, if these make most of what half floats do to the value."""
    error = (half_of(value).double() - value.double()).nan_to_num(posinf=0.0, neginf=0.0).square()
    return float(lost.double().mean()) if error[lost].sum() > error.sum() / 2 else 0.0


def _faint(value: torch.Tensor) -> float:
    """Share of the energy of a value that lies in elements too small for half floats."""
    if not value.is_floating_point():
        return 0.0
    energy = value.double().square()
    lost = ((half_of(value) - value).abs() > LOST * value.abs()) & (value.abs() < 1)
    total = float(energy.sum())
    return float(energy[lost].sum()) / total if 0 < total < LARGEST else 0.0


def _stagnates(total: torch.Tensor, part: torch.Tensor) -> bool:
    """Whether half of the parts are lost when they are added to the largest total."""
    if not part.is_floating_point() or not part.numel():
        return False
    return bool(part.abs().median() <= ulp16(total.abs().max()) / 2) and bool(part.abs().max() > 0)


def _largest(error: torch.Tensor | None) -> float:
    if error is None or not error.numel():
        return 0.0
    return min(float(error.abs().nan_to_num().max()), LARGEST)


def _rms(value: torch.Tensor | None) -> float:
    if value is None or not value.numel():
        return 0.0
    return min(float(value.double().nan_to_num().square().mean().sqrt()), LARGEST)

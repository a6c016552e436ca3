"""Finds the two sides of either step that makes errors: what the reference computes, and what the other has.

Quantisation is eager against the quantised model, backend is that model against the HTP. Both are the same
question, which :mod:`qnndbg.pipeline.effects` answers: a reference program, the other side's value at each of
its places, and the error made at each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from qnndbg.analyze.twins import twins
from qnndbg.execute.effect import like
from qnndbg.execute.local import Local, Taps
from qnndbg.execute.program import Place, Program
from qnndbg.execute.reference import Computed
from qnndbg.execute.rounding import channel_axis, grid_of, rounding_of
from qnndbg.model.attribution import Attribution
from qnndbg.model.graph import Node, Ref
from qnndbg.pipeline.effects import Side, attributed


def attribute_backend(
    program: Program,
    taps: Taps,
    local: Local,
    names: Mapping[Place, str],
    changes: Mapping[Place, str],
    method: str,
    sample: int,
) -> Iterator[Attribution]:
    """Split what the HTP adds over its ops, and over the inputs and constants that it cannot hold.

    Args:
        program: the quantised reference with its delegates.
        taps: what the HTP dumped.
        local: the same places from the HTP's own inputs.
        names: QNN tensor of each place.
        changes: how constants come to be others in QNN, as half a sentence.
        method: whose outputs they are.
        sample: of which inputs.
    """
    targets = {**local.held, **local.unrounded, **taps.values, **local.read}
    fused = frozenset(() if taps.half else local.read)  # half floats are read otherwise where they overflow
    side = Side(targets=targets, floors=dict(local.floors), fused=fused, half=taps.half, changes=changes)
    for place, target in targets.items():
        made = local.values.get(place)
        if made is not None and made.is_floating_point():
            side.errors[place] = like(target, made) - made
    yield from attributed(program, side, local.results, "backend", names, method, sample)


def attribute_quantisation(
    float_model: Program, quantised_model: Program, method: str, sample: int
) -> Iterator[Attribution]:
    """Split what the quantiser adds over inputs, weights, biases and activations.

    Args:
        float_model: as it was when the observers were put in.
        quantised_model: what convert_pt2e returned, or what was exported of it.
        method: whose outputs they are.
        sample: of which inputs.
    """
    side, results = _Quantised(float_model, quantised_model).side()
    yield from attributed(float_model, side, results, "quantisation", {}, method, sample)


class _Quantised:
    """Finds the quantised value of each input, constant and op of the float model, by the ops' order."""

    def __init__(self, float_model: Program, quantised_model: Program) -> None:
        self.float_model = float_model
        self.nodes = {node.name: node for node in quantised_model.graph.nodes}
        self.twins = twins(float_model.graph, quantised_model.graph)
        self.values: dict[str, torch.Tensor] = {}
        self.results = quantised_model.run(self._collect).results
        self.rounded_by: dict[str, Node] = {}
        for node in quantised_model.graph.nodes:
            if ".quantize_" in node.target and node.args and isinstance(node.args[0], Ref):
                self.rounded_by.setdefault(node.args[0].node, node)

    def _collect(self, place: Place, computed: Computed) -> torch.Tensor | None:
        if computed.value is not None:
            self.values[computed.node.name] = computed.value
        return computed.value

    def side(self) -> tuple[Side, Sequence[object]]:
        side = Side()
        for node in self.float_model.graph.nodes:
            twin = self.twins.get(node.name)
            if twin is not None:
                self._constants(node, twin, side)
                self._activation(node, twin, side)
        self._local_errors(side)
        return side, self.results

    def _activation(self, node: Node, twin: Node, side: Side) -> None:
        exact, rounded_by = self.values.get(twin.name), self.rounded_by.get(twin.name)
        if exact is None:
            return
        place = Place(None, node.name, 0)
        side.targets[place] = exact
        if rounded_by is not None and rounded_by.name in self.values:
            side.targets[place] = self.values[rounded_by.name]
            side.roundings[place] = rounding_of(
                exact, side.targets[place], grid_of(rounded_by), axis=channel_axis(exact, node.target)
            )

    def _constants(self, node: Node, twin: Node, side: Side) -> None:
        floats = {n.name: n for n in self.float_model.graph.nodes if n.constant is not None}
        for mine, other in zip(node.args, twin.args, strict=False):
            if not isinstance(mine, Ref) or not isinstance(other, Ref) or mine.node not in floats:
                continue
            constant = floats[mine.node].constant
            rounded = self.values.get(other.node)
            if constant is None or rounded is None:
                continue
            exact = self.float_model.load(constant)
            if exact.shape != rounded.shape or not exact.is_floating_point():
                continue
            place = Place(None, mine.node, 0)
            side.targets[place] = rounded
            if exact.numel() and not torch.equal(exact, rounded):
                side.roundings[place] = rounding_of(exact, rounded, grid_of(self.nodes[other.node]), axis=0)

    def _local_errors(self, side: Side) -> None:
        def note(place: Place, computed: Computed) -> torch.Tensor | None:
            target, value = side.targets.get(place), computed.value
            if target is None or value is None:
                return value
            if value.is_floating_point() and value.shape == target.shape:
                side.errors[place] = target - value
            return like(target, value)

        self.float_model.run(note)

"""Where two lowerings part whose graphs are all the same; and with that, whether they are the same."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from qnndbg.analyze.diff.layers import within_rounding
from qnndbg.analyze.diff.outputs import on_the_cpu
from qnndbg.model.diff import Diff, LayerDiff, OutputDiff, Parting, PartingKind, RungDiff


def run_parting(diff: Diff, other_inputs: list[tuple[str, int]]) -> Diff:
    """The difference with its verdict: same or not, and where they part if no graph told.

    Args:
        diff: all but the verdict.
        other_inputs: method and number of the samples whose inputs differ.
    """
    numbers = _that_count(diff)
    parting = diff.first_parting or _parting(diff, numbers, other_inputs)
    found = (diff.methods, diff.fallbacks, diff.passes, diff.graphs, diff.qnn, diff.accuracy, diff.sizes)
    ended = (diff.a.complete, diff.a.failure) != (diff.b.complete, diff.b.failure)
    return replace(diff, same=not (parting or any(found) or any(numbers) or ended), first_parting=parting)


class _Numbers(NamedTuple):
    """The numbers that differ."""

    outputs: list[OutputDiff]
    rungs: list[RungDiff]
    layers: list[LayerDiff]


def _that_count(diff: Diff) -> _Numbers:
    """All that differ, but for what rounding on the CPU explains, where there was any."""
    if not any(output.rounding for output in diff.outputs):
        return _Numbers([*diff.outputs], [*diff.rungs], [*diff.layers])
    return _Numbers(
        [output for output in diff.outputs if not output.rounding],
        [rung for rung in diff.rungs if not within_rounding(rung.a, rung.b)],
        [layer for layer in diff.layers if not _by_rounding(layer)],
    )


def _by_rounding(layer: LayerDiff) -> bool:
    a, b = layer.a, layer.b
    if a is None or b is None or layer.changes:
        return False
    return within_rounding(a.local, b.local) and within_rounding(a.accumulated, b.accumulated)


def _parting(diff: Diff, numbers: _Numbers, other_inputs: list[tuple[str, int]]) -> Parting | None:
    if diff.qnn:
        first = diff.qnn[0]
        place = first.a or first.b
        return Parting(
            kind="qnn",
            stage="qnn",
            method=first.method,
            partition=place.partition if place else None,
            what=place.name if place else "",
        )
    if diff.sizes:
        return Parting(kind="program", stage="program", method="", what=diff.sizes[0].what)
    if other_inputs:
        method, sample = other_inputs[0]
        return Parting(kind="inputs", stage="run", method=method, what=f"sample {sample}")
    return _of_numbers(numbers)


def _of_numbers(numbers: _Numbers) -> Parting | None:
    """The first runner whose answer differs."""
    if numbers.outputs:
        first = numbers.outputs[0]
        return Parting(kind=_kind(first.runner), stage="run", method=first.method, what=first.runner)
    for rung in numbers.rungs:
        if rung.a != rung.b:
            return Parting(kind=_kind(rung.name), stage="run", method=rung.method, what=rung.name)
    if numbers.layers:
        side = numbers.layers[0].a or numbers.layers[0].b
        if side is not None:
            return Parting(
                kind="htp", stage="run", method=side.method, partition=side.partition, what=side.tensor
            )
    return None


def _kind(runner: str) -> PartingKind:
    return "reference" if on_the_cpu(runner) else "htp"

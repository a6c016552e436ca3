"""Where two lowerings part whose graphs are all the same; and with that, whether they are the same."""

from __future__ import annotations

from msgspec.structs import replace

from qnndbg.model.diff import Diff, Parting, PartingKind

ON_THE_CPU = ("eager", "quantized", "edge", "reference")


def run_parting(diff: Diff, other_inputs: list[tuple[str, int]]) -> Diff:
    """The difference with its verdict: same or not, and where they part if no graph told.

    Args:
        diff: all but the verdict.
        other_inputs: method and number of the samples whose inputs differ.
    """
    parting = diff.first_parting or _parting(diff, other_inputs)
    found = (diff.methods, diff.fallbacks, diff.passes, diff.graphs, diff.qnn, diff.layers, diff.rungs)
    ended = (diff.a.complete, diff.a.failure) != (diff.b.complete, diff.b.failure)
    same = not (parting or any(found) or diff.outputs or diff.accuracy or diff.sizes or ended)
    return replace(diff, same=same, first_parting=parting)


def _parting(diff: Diff, other_inputs: list[tuple[str, int]]) -> Parting | None:
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
    return _of_numbers(diff)


def _of_numbers(diff: Diff) -> Parting | None:
    """The first runner whose answer differs."""
    if diff.outputs:
        first = diff.outputs[0]
        return Parting(kind=_kind(first.runner), stage="run", method=first.method, what=first.runner)
    for rung in diff.rungs:
        if rung.a != rung.b:
            return Parting(kind=_kind(rung.name), stage="run", method=rung.method, what=rung.name)
    if diff.layers:
        side = diff.layers[0].a or diff.layers[0].b
        if side is not None:
            return Parting(
                kind="htp", stage="run", method=side.method, partition=side.partition, what=side.tensor
            )
    return None


def _kind(runner: str) -> PartingKind:
    return "reference" if runner in ON_THE_CPU else "htp"

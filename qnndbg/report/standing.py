"""Where a layer stands: whether its error is made there or inherited, in the words of all formats."""

from __future__ import annotations

from typing import Literal, get_args

from qnndbg.analyze.verdict import sources, victims
from qnndbg.model.recording import Failure, PassEvent, Stage
from qnndbg.model.result import LayerResult
from qnndbg.report import units

Standing = Literal["made here", "inherited"]


def standings(layers: tuple[LayerResult, ...]) -> tuple[Standing | None, ...]:
    """Of each layer; None for one that does not stand out.

    Args:
        layers: all of a recording.
    """
    made, inherited = frozenset(sources(layers)), frozenset(victims(layers))
    return tuple(
        "made here" if layer in made else "inherited" if layer in inherited else None for layer in layers
    )


def reached(failure: Failure, passes: tuple[PassEvent, ...]) -> str:
    """The stages that a lowering went through before it failed, and those that it never came to."""
    seen = {event.stage for event in passes}
    stages = [stage for stage in get_args(Stage) if stage in seen]
    if not stages:
        return ""
    if failure.step.startswith("htp"):
        return f"{' → '.join([*stages, failure.step])} {units.BROKEN}"
    order = list(get_args(Stage))
    left = ", ".join(order[order.index(stages[-1]) + 1 :])
    return f"{' → '.join(stages)} {units.BROKEN}{f'; not reached: {left}' if left else ''}"


def place(module: str, source: str) -> str:
    """Module and source line, those that are known."""
    return ", ".join(part for part in (module, source) if part)

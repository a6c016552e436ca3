"""Where a layer stands: whether its error is made there or inherited, in the words of all formats."""

from __future__ import annotations

from typing import Literal

from qnndbg.analyze.verdict import sources, victims
from qnndbg.model.result import LayerResult

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


def place(module: str, source: str) -> str:
    """Module and source line, those that are known."""
    return ", ".join(part for part in (module, source) if part)

"""The layers that are not the same in two recordings, as a table."""

from __future__ import annotations

import math
from collections import Counter
from typing import Literal

from rich.console import Group, RenderableType
from rich.text import Text

from qnndbg.model.diff import LayerDiff
from qnndbg.model.result import ErrorMetrics
from qnndbg.report import units
from qnndbg.report.columns import aligned
from qnndbg.report.diff_graphs import short
from qnndbg.report.diff_words import counted

ORDER = ("regressed", "fixed", "worse", "better", "new", "gone", "changed")
DiffOrder = Literal["status", "local", "accumulated", "order"]
METHOD = 6
NARROW, WIDE = 19, 90
"""Cells for the layer's name, and the room from which on it gets more."""
STYLES = {"regressed": "bold red", "fixed": "bold green", "worse": "red", "better": "green"}


def ordered(layers: tuple[LayerDiff, ...], by: DiffOrder) -> tuple[LayerDiff, ...]:
    """The layers by status, by the decibels that an error lost from A to B, or in execution order."""
    if by == "order":
        return layers
    if by == "status":
        return tuple(sorted(layers, key=lambda layer: ORDER.index(layer.status)))
    return tuple(sorted(layers, key=lambda layer: -lost(layer, by)))


def lost(layer: LayerDiff, by: Literal["local", "accumulated"]) -> float:
    """Decibels by which an error is worse in B; minus infinity where one side has none."""
    a, b = (getattr(side, by) if side else None for side in (layer.a, layer.b))
    if a is None or b is None or a.sqnr_db is None or b.sqnr_db is None:
        return -math.inf
    return float(a.sqnr_db - b.sqnr_db)


def layer_section(
    layers: tuple[LayerDiff, ...], limit: int | None, room: int, by: DiffOrder = "status"
) -> RenderableType:
    """How many of each, and a table of those that a person need look at.

    Args:
        layers: all that differ.
        limit: rows; None shows all.
        room: cells of the terminal.
        by: order of the rows.
    """
    counts = Counter(str(layer.status) for layer in layers)
    ranked = ordered(layers, by)
    shown = list(ranked if limit is None else [la for la in ranked if la.status != "changed"][:limit])
    parts: list[RenderableType] = [Text(counted(counts, ORDER))]
    if shown:
        parts += _lines(shown, room)
    if counts["changed"]:
        parts.append(Text("changed: its encoding or the like, or its errors by less than 1 dB", "dim"))
    if any(layer.status in STYLES for layer in shown):
        parts.append(Text("regressed, fixed: own error; worse, better: what reaches it", "dim"))
    if len(shown) < len(ranked):
        parts.append(Text(f"… {len(ranked) - len(shown)} more; --all shows all", "dim"))
    return Group(*parts)


def _lines(layers: list[LayerDiff], room: int) -> list[Text]:
    sides = [side for layer in layers for side in (layer.a, layer.b) if side]
    several = len({side.method for side in sides}) > 1
    size = (NARROW - several * METHOD) if room < WIDE else NARROW + room - WIDE
    rows: list[tuple[str, ...]] = [
        ("status", "method" if several else "", "layer", "local dB", "LSB|ULP", "accum. dB", "op")
    ]
    for layer in layers:
        side = layer.b or layer.a
        if side is None:
            continue
        local = [one.local if one else None for one in (layer.a, layer.b)]
        accumulated = [one.accumulated if one else None for one in (layer.a, layer.b)]
        rows.append(
            (
                layer.status,
                units.clip_right(side.method, METHOD) if several else "",
                units.clip_tensor(side.tensor, size),
                arrow(layer, *map(units.decibels, local)),
                arrow(layer, *map(steps, local)),
                arrow(layer, *map(units.decibels, accumulated)),
                " ".join(part for part in (short(side.op), side.module) if part),
            )
        )
    if not several:
        rows = [(row[0], *row[2:]) for row in rows]
    numbers = tuple(range(2 + several, 5 + several))
    head, *body = aligned(rows, room, limits=(None,) * len(rows[0]), right=numbers)
    head.stylize("dim")
    for layer, line in zip(layers, body, strict=True):
        line.stylize(STYLES.get(layer.status, ""), 0, len(layer.status))
    return [head, *body]


def steps(error: ErrorMetrics | None) -> str:
    """The largest error in steps of the encoding where there is one, else of half floats."""
    with_lsb = error is not None and error.max_lsb is not None
    return units.steps(error, "LSB" if with_lsb else "ULP")


def arrow(layer: LayerDiff, a: str, b: str) -> str:
    """Both sides of a cell, or the one that there is."""
    if layer.a is None or layer.b is None:
        return b if layer.a is None else a
    return f"{a} → {b}" if a != b else a

"""A difference as text: same or not, the first parting, the numbers, the layers, then what else differs."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from qnndbg.model.diff import Diff
from qnndbg.report import units
from qnndbg.report.columns import aligned
from qnndbg.report.diff_graphs import counts, graph_name, node_lines
from qnndbg.report.diff_layers import DiffOrder, layer_section
from qnndbg.report.diff_lists import fallback_lines, pass_lines, qnn_lines
from qnndbg.report.diff_numbers import accuracy_section, number_section, size_section
from qnndbg.report.diff_words import change_text, headline, moved, page_words, regressed

SHOWN = 8
"""Lines of a list."""
LABEL = 13
"""Cells for the names of the sections."""


def print_diff(
    console: Console,
    diff: Diff,
    *,
    everything: bool = False,
    layers: int = SHOWN,
    sort: DiffOrder = "status",
) -> None:
    """Print how two recordings differ.

    Args:
        console: where to; its width decides what is shown.
        diff: of the two.
        everything: leave nothing out, and show how long the passes took.
        layers: how many are shown at most, unless everything is.
        sort: the order of the layers.
    """
    sign, style = (units.SOUND, "bold green") if diff.same else (units.BROKEN, "bold red")
    verdict, colon, rest = headline(diff).partition(":")
    lines: list[RenderableType] = [Text.assemble((verdict + colon, style), rest)]
    console.print(_hanging(Text(sign, style), Group(*lines)))
    for words in () if diff.same else filter(None, (moved(diff), regressed(diff))):
        console.print(_hanging(Text("→", "bold"), Text(words)))
    console.print()
    for label, page in (("A", diff.a), ("B", diff.b)):
        console.print(_hanging(Text(f"  {label}", "bold"), Text(page_words(page))))
    room = console.width - LABEL
    rows = layer_section(diff.layers, None if everything else layers, room, sort)
    for label, content in _sections(diff, None if everything else SHOWN, room, rows):
        console.print()
        console.print(_labelled(label, content))


def _hanging(sign: Text, content: RenderableType) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_row(sign, content)
    return grid


def _labelled(label: str, content: RenderableType) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=LABEL - 1)
    grid.add_row(Text(label, "bold"), content)
    return grid


def _sections(
    diff: Diff, limit: int | None, room: int, layers: RenderableType
) -> Iterator[tuple[str, RenderableType]]:
    parting = diff.first_parting
    if parting and parting.graph:
        graph = parting.graph
        yield "Parting", Group(Text(counts(graph)), node_lines(graph, limit, room))
    if diff.rungs or diff.outputs or diff.outputs_note:
        yield "Numbers", number_section(diff)
    if diff.layers:
        yield "Layers", layers
    if diff.accuracy:
        yield "Accuracy", accuracy_section(diff, room)
    if diff.passes:
        yield "Passes", _lines(pass_lines(diff.passes, limit), limit)
    if diff.graphs:
        yield "Graphs", _graphs(diff, room, everything=limit is None)
    if diff.methods or diff.fallbacks:
        yield "On the CPU", _lines(fallback_lines(diff), limit)
    if diff.qnn:
        yield "QNN ops", _lines(qnn_lines(diff, everything=limit is None), limit)
    if diff.sizes:
        yield "Sizes", size_section(diff, room)
    if diff.environment:
        yield "Environment", _lines([change_text(change) for change in diff.environment], None)
    if diff.times and limit is None:
        yield "Times", _lines([f"{time.stage} ×{time.b / time.a:.2f}" for time in diff.times], None)


def _lines(lines: list[str], limit: int | None) -> RenderableType:
    shown = lines if limit is None else lines[:limit]
    more = [Text(f"… {len(lines) - len(shown)} more; --all shows all", "dim")]
    return Group(*map(Text, shown), *(more if len(shown) < len(lines) else []))


def _graphs(diff: Diff, room: int, *, everything: bool) -> RenderableType:
    lines = aligned([(graph_name(graph), counts(graph)) for graph in diff.graphs], room, limits=(None, None))
    if not everything:
        return Group(*lines)
    nodes = (node_lines(graph, None, room) for graph in diff.graphs)
    return Group(*(part for pair in zip(lines, nodes, strict=True) for part in pair))

"""A difference as text: same or not, the first parting, the numbers, the layers, then what else differs."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from qnndbg.model.diff import Diff, PassDiff, PassRun, Side
from qnndbg.report import units
from qnndbg.report.columns import aligned
from qnndbg.report.diff_graphs import counts, node_lines, short
from qnndbg.report.diff_layers import layer_section
from qnndbg.report.diff_numbers import accuracy_section, number_section, size_section
from qnndbg.report.diff_words import change_text, headline, moved, regressed, summed

SHOWN = 8
"""Lines of a list."""
LABEL = 13
"""Cells for the names of the sections."""


def print_diff(console: Console, diff: Diff, *, everything: bool = False) -> None:
    """Print how two recordings differ.

    Args:
        console: where to; its width decides what is shown.
        diff: of the two.
        everything: leave nothing out, and show how long the passes took.
    """
    sign, style = (units.SOUND, "bold green") if diff.same else (units.BROKEN, "bold red")
    verdict, colon, rest = headline(diff).partition(":")
    lines: list[RenderableType] = [Text.assemble((verdict + colon, style), rest)]
    console.print(_hanging(Text(sign, style), Group(*lines)))
    for words in () if diff.same else filter(None, (moved(diff), regressed(diff))):
        console.print(_hanging(Text("→", "bold"), Text(words)))
    console.print()
    for label, page in (("A", diff.a), ("B", diff.b)):
        console.print(_hanging(Text(f"  {label}", "bold"), Text(_page(page))))
    for label, content in _sections(diff, None if everything else SHOWN, console.width - LABEL):
        console.print()
        console.print(_labelled(label, content))


def _page(page: Side) -> str:
    words = [word for word in (page.target, page.precision, page.soc) if word]
    if page.failure:
        words.append(f"ends early: {page.failure}")
    elif not page.complete:
        words.append("not complete")
    return " · ".join(words)


def _hanging(sign: Text, content: RenderableType) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_row(sign, content)
    return grid


def _labelled(label: str, content: RenderableType) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=LABEL - 1)
    grid.add_row(Text(label, "bold"), content)
    return grid


def _sections(diff: Diff, limit: int | None, room: int) -> Iterator[tuple[str, RenderableType]]:
    parting = diff.first_parting
    if parting and parting.graph:
        graph = parting.graph
        yield "Parting", Group(Text(counts(graph)), node_lines(graph, limit, room))
    if diff.rungs or diff.outputs or diff.outputs_note:
        yield "Numbers", number_section(diff)
    if diff.layers:
        yield "Layers", layer_section(diff.layers, limit, room)
    if diff.accuracy:
        yield "Accuracy", accuracy_section(diff, room)
    if diff.passes:
        yield "Passes", _passes(diff.passes, limit)
    if diff.graphs:
        yield "Graphs", _graphs(diff, room, everything=limit is None)
    if diff.methods or diff.fallbacks:
        yield "On the CPU", _fallbacks(diff, limit)
    if diff.qnn:
        yield "QNN ops", _qnn(diff, limit)
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


def _passes(passes: tuple[PassDiff, ...], limit: int | None) -> RenderableType:
    lines: list[str] = []
    lone: dict[tuple[str, str], list[PassRun]] = {}
    for diff in passes:
        run = diff.a or diff.b
        if diff.moved or (diff.a and diff.b):
            lines.append(f"{_place(diff)}: {_both(diff)}")
        elif run is not None:
            lone.setdefault((_place(diff), "A" if diff.a else "B"), []).append(run)
    lines += [_alone(place, side, runs, limit) for (place, side), runs in lone.items()]
    return _lines(lines, limit)


def _place(diff: PassDiff) -> str:
    words = [diff.stage] if diff.partition is None else [diff.stage, str(diff.partition)]
    return " ".join(words if diff.method == "forward" else [*words, diff.method])


def _alone(place: str, side: str, runs: list[PassRun], limit: int | None) -> str:
    """Passes that one side alone has; those that changed the graph first."""
    named = sorted((run for run in runs if run.name), key=lambda run: (not run.changed, run.index))
    names = [run.name + (" (changed the graph)" if run.changed else "") for run in named]
    if len(named) < len(runs):  # the snapshot with which it begins
        changed = sum(run.changed for run in named)
        told = f" with {len(named)} passes, of which {changed} changed the graph" if named else ""
        return f"{place}: all of it only in {side}{told}"
    few = names[:limit]
    rest = f" and {len(names) - len(few)} more" if len(few) < len(names) else ""
    return f"{place}: only in {side}: {', '.join(few)}{rest}"


def _both(diff: PassDiff) -> str:
    a, b = diff.a, diff.b
    if a is None or b is None:
        return ""
    if diff.moved:
        return f"{a.name} runs elsewhere in the order"
    if a.error or b.error:
        return f"{a.name} failed: " + "; ".join(
            f"{side}: {run.error or 'no'}" for side, run in (("A", a), ("B", b))
        )
    return f"{a.name} changed the graph in {'A' if a.changed else 'B'} only"


def _graphs(diff: Diff, room: int, *, everything: bool) -> RenderableType:
    rows = []
    for graph in diff.graphs:
        place = graph.stage if graph.partition is None else f"{graph.stage} {graph.partition}"
        rows.append((place if graph.method == "forward" else f"{place} {graph.method}", counts(graph)))
    lines = aligned(rows, room, limits=(None, None))
    if not everything:
        return Group(*lines)
    nodes = (node_lines(graph, None, room) for graph in diff.graphs)
    return Group(*(part for pair in zip(lines, nodes, strict=True) for part in pair))


def _fallbacks(diff: Diff, limit: int | None) -> RenderableType:
    lines = [change_text(change) for change in diff.methods]
    for fallback in diff.fallbacks:
        a, b = fallback.a, fallback.b
        if a and b:
            lines.append(f"{short(b.op)} {b.node}: {a.reason} → {b.reason}")
        elif a or b:
            one = a or b
            assert one is not None
            lines.append(f"only in {'A' if a else 'B'}: {short(one.op)} {one.node}: {one.reason}")
    return _lines(lines, limit)


def _qnn(diff: Diff, limit: int | None) -> RenderableType:
    groups: dict[str, int] = {}
    for op in diff.qnn:
        one = op.b or op.a
        if one is None:
            continue
        words = f"only in {'A' if op.a else 'B'}"
        if op.a and op.b:
            words = "; ".join(map(change_text, op.changes)) if limit is None else summed(op.changes)
        label = f"{one.type} {one.name}" if limit is None else one.type
        groups[f"{label}: {words}"] = groups.get(f"{label}: {words}", 0) + 1
    return _lines([f"{n} × {line}" if n > 1 else line for line, n in groups.items()], limit)

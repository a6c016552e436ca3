"""How two graphs differ, as lines: equal changes of equal ops together, or every node."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from qnndbg.model.diff import Change, GraphDiff, Place
from qnndbg.report.columns import aligned
from qnndbg.report.diff_words import change_text

QUIET = ("through",)
"""Changes that follow from a node that is new or gone beside it."""


class Line(NamedTuple):
    """A node, or its change, in words."""

    sign: str
    op: str
    what: str
    example: str


def short(op: str) -> str:
    """An op without its namespace and overload."""
    parts = op.split(".")
    return parts[1] if len(parts) > 2 else op


def graph_name(graph: GraphDiff) -> str:
    """Stage, partition and method of the snapshots, those that tell something."""
    place = graph.stage if graph.partition is None else f"{graph.stage} {graph.partition}"
    return place if graph.method == "forward" else f"{place} {graph.method}"


def counts(graph: GraphDiff) -> str:
    """Such as ``30 → 31 nodes: 2 changed, 1 rewired, 1 only in B``; rewired by what is only in one."""
    if graph.nodes_a is None or graph.nodes_b is None:
        return f"only {'A' if graph.nodes_b is None else 'B'} has it: {graph.nodes_a or graph.nodes_b} nodes"
    loud = sum(any(change.what not in QUIET for change in node.changes) for node in graph.changed)
    beside = len(graph.changed) - loud
    parts = [
        (loud, "changed"),
        (beside, "rewired"),
        (len(graph.only_a), "only in A"),
        (len(graph.only_b), "only in B"),
    ]
    told = ", ".join(f"{count} {words}" for count, words in parts if count)
    nodes = str(graph.nodes_a) if graph.nodes_a == graph.nodes_b else f"{graph.nodes_a} → {graph.nodes_b}"
    return f"{nodes} nodes: {told or 'another arrangement of equal nodes'}"


def node_lines(graph: GraphDiff, limit: int | None, room: int) -> RenderableType:
    """The nodes that differ.

    Args:
        graph: how the graphs differ.
        limit: how many lines to show, with equal ones together; None shows every node.
        room: cells of the terminal.
    """
    if limit is None:
        lines = _lines(graph, everything=True)
        return Group(*(Text("  ".join(part for part in line if part)) for line in lines))
    folded = folded_lines(graph)
    rows = [(f"{count} {line.sign}", line.op, line.what, line.example) for line, count in folded[:limit]]
    hidden = len(folded) - len(rows)
    more = [Text(f"… {hidden} more; --all shows every node", "dim")] if hidden else []
    return Group(*aligned(rows, room, limits=(None, 18, 18, None), right=(0,)), *more)


def _lines(graph: GraphDiff, *, everything: bool) -> list[Line]:
    return [
        *_alone("−", graph.only_a, everything=everything),
        *_alone("+", graph.only_b, everything=everything),
        *_changed(graph, everything=everything),
    ]


def folded_lines(graph: GraphDiff) -> list[tuple[Line, int]]:
    """The nodes that differ, those whose lines differ only in the example together; the first of each."""
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in _lines(graph, everything=False):
        groups.setdefault(line[:3], []).append(line)
    return [(group[0], len(group)) for group in groups.values()]


def _alone(sign: str, places: tuple[Place, ...], *, everything: bool) -> list[Line]:
    made = [f"by {place.created_by}" if place.created_by else "" for place in places]
    if everything:
        return [Line(sign, short(p.op), _where(p), by) for p, by in zip(places, made, strict=True)]
    return [Line(sign, short(p.op), by, _where(p)) for p, by in zip(places, made, strict=True)]


def _changed(graph: GraphDiff, *, everything: bool) -> list[Line]:
    lines: list[Line] = []
    for node in graph.changed:
        loud = [change for change in node.changes if change.what not in QUIET]
        if not loud and not everything:
            continue
        shown = node.changes if everything else loud
        where = _where(node.b)
        if everything:
            lines.append(Line("~", short(node.b.op), where, "; ".join(map(change_text, shown))))
        else:
            lines.append(Line("~", short(node.b.op), _whats(loud), f"{_value(loud[0])} {where}"))
    return lines


def _whats(changes: list[Change]) -> str:
    names = [change.what for change in changes]
    return ", ".join(names[:3]) + (f" +{len(names) - 3}" if len(names) > 3 else "")


def _value(change: Change) -> str:
    return change_text(change).removeprefix(f"{change.what} ")


def _where(place: Place) -> str:
    return " ".join(part for part in (place.name, place.module) if part)

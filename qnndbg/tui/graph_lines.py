"""Nodes of a graph as lines: a whole graph in its order, and what lies around one node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.text import Text

from qnndbg.analyze.phrases import short_op
from qnndbg.report import units
from qnndbg.tui.culprit import evidence
from qnndbg.tui.page import blank, title
from qnndbg.tui.places import GraphAt, NodeAt
from qnndbg.tui.sheet import Line
from qnndbg.tui.state import Session
from qnndbg.tui.twins import layer_of
from qnndbg.tui.walk import Stop, Walk, encoding_text
from qnndbg.tui.words import cut, wrapped

NARROW = 100
"""Below, a neighbour shows its errors or its shape."""
WIDE = 130
"""From here on, the op of a neighbour has room for long names."""
SHOWN = 12
"""Neighbours on one side; a constant may have hundreds of readers."""


def graph_name(at: GraphAt) -> str:
    """How a graph is called."""
    method = "" if at.method == "forward" else f" {at.method}"
    return f"{at.stage}{method}{'' if at.partition is None else f' #{at.partition}'}"


def signed(session: Session, at: GraphAt, stop: Stop) -> tuple[tuple[str, str], str]:
    """The sign of a value with its style, and its errors in a few words."""
    key = layer_of(session, at, stop)
    layer = session.layers.get(key) if key is not None else None
    if key is None or layer is None or layer.reason:
        return (" ", "faint"), ""
    unit = session.unit
    local, accumulated = units.steps(layer.local, unit), units.steps(layer.accumulated, unit)
    words = "" if local == accumulated == units.NONE else f"local {local} acc {accumulated} {unit}"
    if key in session.made:
        return (units.MADE_HERE, "made"), words
    return (units.INHERITED if key in session.inherited else " ", "faint"), words


def room_for(names: Iterable[str], width: int) -> int:
    """Cells of the names in a listing: a third of a line, or up to half of a wide one if they are so long."""
    third = max(min((width - 20) // 3, 56), 16)
    return third if width < NARROW else max(third, min(max(map(len, names), default=0), width // 2 - 14))


def node_line(session: Session, at: GraphAt, stop: Stop, room: int) -> Line:
    """One node of a listing, whose name has some room."""
    sign, words = signed(session, at, stop)
    styles = {"op": "", "input": "link", "weight": "faint", "output": "link"}
    call = f"{short_op(stop.op)}({', '.join(stop.inputs)})" if stop.kind in {"op", "output"} else stop.op
    text = Text.assemble(
        (f"{sign[0]} ", sign[1]),
        (f"{units.clip_tensor(stop.name, room):<{room}} ", styles[stop.kind]),
        (f"{stop.value:<18} ", "faint"),
        (f"{words}  " if words else "", sign[1]),
        (call, ""),
    )
    return Line(text, NodeAt(stop.name, at), stop)


def around(
    session: Session, at: GraphAt, walk: Walk, name: str, folder: Path, width: int
) -> tuple[list[Line], int]:
    """What lies around a node, and the number of its own line."""
    stop = walk.stops[name]
    lines = [title("Reads", "← goes to the one under the cursor, or the first")]
    lines += [*_side(session, at, walk, stop.inputs, "inputs", width)] or [_nothing()]
    lines.append(blank())
    mine = len(lines)
    lines += [*_here(session, at, stop, width), *evidence(session, at, stop, folder, width), blank()]
    lines.append(title("Read by", "→ goes to the one under the cursor, or the first"))
    lines += [*_side(session, at, walk, walk.users.get(name, ()), "users", width)] or [_nothing()]
    return lines, mine


def _nothing() -> Line:
    return Line(Text("  nothing", "faint"), stop=False)


def _side(
    session: Session, at: GraphAt, walk: Walk, names: tuple[str, ...], way: str, width: int
) -> Iterator[Line]:
    """Neighbours, and below each, further from the node, its own."""
    names = tuple(n for n in dict.fromkeys(names) if n in walk.stops)
    for i, name in enumerate(names[:SHOWN]):
        stop = walk.stops[name]
        last = i == len(names[:SHOWN]) - 1
        far = stop.inputs if way == "inputs" else walk.users.get(name, ())
        far = tuple(n for n in dict.fromkeys(far) if n in walk.stops and walk.stops[n].kind != "weight")
        yield _branch(session, at, stop, "└─" if last else "├─", width, way)
        for n in far[:3]:
            yield _branch(session, at, walk.stops[n], ("   " if last else "│  ") + "└─", width, way)
        if len(far) > 3:
            yield Line(Text(f"  {'   ' if last else '│  '}   {len(far) - 3} more", "faint"), stop=False)
    if len(names) > SHOWN:
        yield Line(Text(f"     {len(names) - SHOWN} more", "faint"), stop=False)


def _branch(session: Session, at: GraphAt, stop: Stop, branch: str, width: int, way: str) -> Line:
    sign, words = signed(session, at, stop)
    narrow = width < NARROW
    op = 14 if width < WIDE else 22
    room = max(width - op - (40 if narrow else 54), 24)
    indent = len(branch) - 2
    text = Text.assemble(
        (f"{sign[0]} ", sign[1]),
        (f"{branch} ", "faint"),
        f"{units.clip_tensor(stop.name, room - indent):<{room - indent}} ",
        f"{units.clip_right(short_op(stop.op), op):<{op}} ",
        ("" if narrow and words else f"{stop.value:<18} ", "faint"),
        (words, sign[1]),
    )
    return Line(cut(text, width), NodeAt(stop.name, at), (way, indent, stop))


def _here(session: Session, at: GraphAt, stop: Stop, width: int) -> Iterator[Line]:
    sign, words = signed(session, at, stop)
    head = Text.assemble(
        (f"{sign[0]} ", sign[1]),
        ("● ", "link"),
        (stop.name, "title"),
        f"  {stop.op}",
        (f"  {words}", sign[1]),
    )
    place = layer_of(session, at, stop)
    yield Line(cut(head, width), place, ("here", 0, stop))
    for i, part in enumerate(wrapped(f"({stop.arguments})", width - 6) if stop.arguments else []):
        yield Line(cut(Text(f"      {part}"), width), place, ("here", 1, stop), stop=not i)
    facts = [
        stop.value,
        "" if stop.encoding is None else encoding_text(stop.encoding),
        stop.module,
        stop.source,
    ]
    facts.append(f"made by {stop.created_by}" if stop.created_by else "")
    name = "node" if at.stage == "qnn" else "QNN"
    facts.append(f"{name} {', '.join(stop.tensors)}" if stop.tensors else "")
    yield Line(
        cut(Text("      " + " · ".join(f for f in facts if f), "faint"), width), place, ("here", 1, stop)
    )

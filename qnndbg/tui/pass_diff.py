"""What a pass did, as lines: before and after side by side, and below a changed node what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from qnndbg.analyze.side_by_side import Row
from qnndbg.model.graph import Node
from qnndbg.tui.places import GraphAt, NodeAt
from qnndbg.tui.sheet import Line
from qnndbg.tui.walk import argument, arguments, encoding_text, shape_text, spec_text

CONTEXT = 1
"""Unchanged nodes that are shown around a change."""


def node_text(node: Node) -> str:
    """A node as a statement."""
    value = ", ".join(spec_text(spec) for spec in node.outputs if spec is not None)
    if node.op == "placeholder":
        return f"{node.name}: {node.role or 'input'} {value}"
    call = node.target.removeprefix("quantized_decomposed.").removesuffix(".default")
    return f"{node.name} = {call}({arguments(node)}) {value}"


def lines_of(
    rows: Sequence[Row], width: int, before: GraphAt, after: GraphAt, *, everything: bool
) -> list[Line]:
    """Rows as lines.

    Args:
        rows: aligned nodes.
        width: cells of a line.
        before: the graph of the left side.
        after: the graph of the right side.
        everything: show unchanged nodes too, however far from a change.
    """
    half = (width - 3) // 2
    near = {j for i, row in enumerate(rows) if not row.same for j in range(i - CONTEXT, i + CONTEXT + 1)}
    lines: list[Line] = []
    hidden = 0
    for i, row in enumerate(rows):
        if not everything and i not in near:
            hidden += 1
            continue
        if hidden:
            lines.append(_hidden(hidden))
            hidden = 0
        node = row.after or row.before
        place = NodeAt(node.name, after if row.after else before) if node is not None else None
        lines += [Line(text, place, row) for text in _row(row, half)]
    return [*lines, _hidden(hidden)] if hidden else lines


def _hidden(count: int) -> Line:
    return Line(Text(f"  … {count} unchanged", "faint"), stop=False)


def _row(row: Row, half: int) -> Iterator[Text]:
    sign, style = (
        ("−", "gone") if row.after is None else ("+", "added") if row.before is None else ("~", "changed")
    )
    if row.same:
        sign, style = " ", "faint"
    left = "" if row.before is None else node_text(row.before)
    right = "" if row.after is None else node_text(row.after)
    yield Text.assemble(
        (f"{sign if row.before else ' '} {_fit(left, half - 2)}", style),
        (" │ ", "faint"),
        (f"{sign if row.after else ' '} {_fit(right, half - 2)}", style),
    )
    if row.before is not None and row.after is not None:
        for name in row.changed:
            yield Text.assemble(
                (_fit(f"    {name}: {field_text(row.before, name)}", half), "gone"),
                (" │ ", "faint"),
                (_fit(f"    {name}: {field_text(row.after, name)}", half), "added"),
            )


def _fit(text: str, width: int) -> str:
    """A text of exactly so many cells."""
    fitted = Text(text)
    fitted.truncate(width, overflow="ellipsis", pad=True)
    return fitted.plain


def field_text(node: Node, name: str) -> str:
    """The value of a field of a node."""
    if name.startswith("args["):
        return argument(node.args[int(name[5:-1])])
    match name:
        case "args":
            return f"({', '.join(argument(arg) for arg in node.args)})"
        case "kwargs":
            return ", ".join(f"{key}={argument(arg)}" for key, arg in node.kwargs.items()) or "none"
        case "outputs":
            return ", ".join("no tensor" if spec is None else spec_text(spec) for spec in node.outputs)
        case "encoding":
            encoding = node.encoding
            return encoding_text(encoding) + (
                f" {encoding.dtype} {encoding.qmin}…{encoding.qmax}" if encoding else ""
            )
        case "requantize":
            return ", ".join(f"{user}: {encoding_text(e)}" for user, e in node.requantize.items()) or "none"
        case "constant":
            return f"{node.constant.dtype} {shape_text(node.constant.shape)}" if node.constant else "none"
        case _:
            return str(getattr(node, name))

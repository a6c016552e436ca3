"""What a pass did, as lines: before and after side by side, and below a changed node what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from qnndbg.analyze.side_by_side import Row
from qnndbg.model.graph import Node
from qnndbg.tui.places import GraphAt, NodeAt
from qnndbg.tui.sheet import Line, Whole
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


class Sides(Whole):
    """Aligned nodes as lines, each drawn when it is seen.

    Args:
        head: lines above them.
        rows: aligned nodes.
        width: cells of a line.
        before: the graph of the left side.
        after: the graph of the right side.
        everything: show unchanged nodes too, however far from a change.
    """

    def __init__(
        self,
        head: Sequence[Line],
        rows: Sequence[Row],
        width: int,
        before: GraphAt,
        after: GraphAt,
        *,
        everything: bool,
    ) -> None:
        self.head, self.rows, self.half = head, rows, (width - 3) // 2
        self.before, self.after = before, after
        self.places = list(_places(rows, everything=everything))

    def __len__(self) -> int:
        return len(self.head) + len(self.places)

    def line(self, index: int) -> Line:
        """A node, a field of it that changed, or how many are left out."""
        if index < len(self.head):
            return self.head[index]
        number, field = self.places[index - len(self.head)]
        if field is None:
            return Line(Text(f"  … {number} unchanged", "faint"), stop=False)
        row = self.rows[number]
        node = row.after or row.before
        place = NodeAt(node.name, self.after if row.after else self.before) if node is not None else None
        return Line(_field(row, field, self.half) if field else _nodes(row, self.half), place, row)

    def whole(self, index: int) -> str:
        """A line whose halves are as wide as they are long."""
        number, field = (0, None) if index < len(self.head) else self.places[index - len(self.head)]
        if field is None:
            return super().whole(index)
        row = self.rows[number]
        texts = _halves(row, field)
        half = max(map(len, texts)) + 2
        return (_field(row, field, half) if field else _nodes(row, half)).plain.rstrip()


def _places(rows: Sequence[Row], *, everything: bool) -> Iterator[tuple[int, str | None]]:
    """The number of a row with the field that a line is about, none of a node; or how many are left out."""
    near = {j for i, row in enumerate(rows) if not row.same for j in range(i - CONTEXT, i + CONTEXT + 1)}
    hidden = 0
    for i, row in enumerate(rows):
        if not everything and i not in near:
            hidden += 1
            continue
        if hidden:
            yield hidden, None
            hidden = 0
        yield i, ""
        yield from ((i, field) for field in row.changed)
    if hidden:
        yield hidden, None


def _nodes(row: Row, half: int) -> Text:
    sign, style = (
        ("−", "gone") if row.after is None else ("+", "added") if row.before is None else ("~", "changed")
    )
    if row.same:
        sign, style = " ", "faint"
    left, right = _halves(row, "")
    return Text.assemble(
        (f"{sign if row.before else ' '} {_fit(left, half - 2)}", style),
        (" │ ", "faint"),
        (f"{sign if row.after else ' '} {_fit(right, half - 2)}", style),
    )


def _field(row: Row, name: str, half: int) -> Text:
    left, right = _halves(row, name)
    return Text.assemble((_fit(left, half), "gone"), (" │ ", "faint"), (_fit(right, half), "added"))


def _halves(row: Row, field: str) -> tuple[str, str]:
    """What stands on either side: a node, or a field of it."""

    def text(node: Node | None) -> str:
        if node is None:
            return ""
        return f"    {field}: {field_text(node, field)}" if field else node_text(node)

    return text(row.before), text(row.after)


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

"""The table of all compared values: sorted, filtered, grouped; errors made are told from errors inherited."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Span, Text
from textual.binding import Binding, BindingType
from textual.widget import Widget

from qnndbg.model.result import LayerResult
from qnndbg.report import units
from qnndbg.tui import query
from qnndbg.tui.columns import GAP, SIGN, Column, columns, drawn, fitted, widths
from qnndbg.tui.page import Page
from qnndbg.tui.places import LayerAt, PageAt, Place
from qnndbg.tui.saturation import fill_in
from qnndbg.tui.sheet import Content, Line, Sheet, Whole
from qnndbg.tui.state import Session, key_of
from qnndbg.tui.words import clipped

Row = LayerResult | str
"""A layer, or the name of a module above its layers."""


class Table(Whole):
    """The rows that are shown, in their order.

    Args:
        session: what to look things up in.
        rows: layers and headings of groups.
        columns: all of them.
        fit: columns and their widths.
        mark: the title of the column that is sorted by, with its direction.
    """

    def __init__(
        self,
        session: Session,
        rows: Sequence[Row],
        columns: Sequence[Column],
        fit: list[tuple[Column, int]],
        mark: tuple[str, str],
    ) -> None:
        self.session, self.rows, self.columns, self.fit, self.mark = session, rows, columns, fit, mark
        self.shown = frozenset(column.name for column, _ in fit)

    def __len__(self) -> int:
        return len(self.rows) or 1

    def heading(self) -> Text:
        """The titles."""
        text = Text(" " * SIGN, end="")
        for column, size in self.fit:
            name = column.name + (self.mark[1] if column.name == self.mark[0] else "")
            name = units.clip_right(name, size + 1)
            text.append(f"{name:>{size}}" if column.right else f"{name:<{size}}")
            text.append(" " * max(GAP - max(len(name) - size, 0), 0))
        return text

    def line(self, index: int) -> Line:
        """One row."""
        if not self.rows:
            return Line(Text(f"  {_why_empty(self.session)}", "faint"), stop=False)
        row = self.rows[index]
        return self._group(row) if isinstance(row, str) else self._layer(row)

    def _group(self, name: str) -> Line:
        found = [layer for layer in self.session.answer.layers if layer.module == name]
        made = sum(key_of(layer) in self.session.made for layer in found)
        effect = sum(layer.effect or 0.0 for layer in found)
        text = Text.assemble(
            (f"▾ {name or '(no module)'}", "title"),
            (f"  {len(found)} value{'' if len(found) == 1 else 's'}", "faint"),
            (f"  {units.MADE_HERE} {made}" if made else "", "made"),
            (f"  effect {units.effect(effect)}" if effect else "", "faint"),
        )
        return Line(text, data={"module": name, "values": len(found), "sources": made, "effect": effect})

    def _sign(self, layer: LayerResult) -> str:
        key = key_of(layer)
        made, inherited = key in self.session.made, key in self.session.inherited
        return f"{units.MADE_HERE if made else units.INHERITED if inherited else ' '} "

    def _layer(self, layer: LayerResult) -> Line:
        key = key_of(layer)
        made = key in self.session.made
        parts, spans, at = [self._sign(layer)], [Span(0, SIGN, "made" if made else "faint")], SIGN
        for column, size in self.fit:
            cell = clipped(drawn(column, layer, self.shown), size, column.clip)
            room = " " * (size - cell_len(cell))
            parts.append(room + cell if column.right else cell + room)
            if style := self._style(column, layer, made):
                spans.append(Span(at, at + len(parts[-1]), style))
            parts.append(" " * GAP)
            at += len(parts[-2]) + GAP
        return Line(Text("".join(parts), spans=spans, end=""), key, layer)

    @cached_property
    def _all_widths(self) -> dict[str, int]:
        """Cells of each column as it is copied, none left out and nothing cut."""
        layers = [row for row in self.rows if not isinstance(row, str)]
        return {c.name: max(map(len, (c.name, *map(c.cell, layers)))) for c in self.columns}

    def whole_heading(self) -> str:
        """The titles of all columns."""
        return f"{'':{SIGN}}{self._padded(column.name for column in self.columns)}"

    def whole(self, index: int) -> str:
        """A row with all columns, as wide as they are."""
        row = self.rows[index] if self.rows else ""
        if isinstance(row, str):
            return self.line(index).text.plain.rstrip()
        return self._sign(row) + self._padded(column.cell(row) for column in self.columns)

    def _padded(self, cells: Iterable[str]) -> str:
        sizes = self._all_widths
        found = (
            f"{cell:{'>' if column.right else '<'}{sizes[column.name]}}"
            for column, cell in zip(self.columns, cells, strict=True)
        )
        return (" " * GAP).join(found).rstrip()

    def _style(self, column: Column, layer: LayerResult, made: bool) -> str:
        if layer.reason:
            return "faint"
        if column.role == "made":
            return "made" if made else ""
        if column.name == "tensor":
            return "strong" if made else ""
        return "faint" if column.role == "inherited" or column.name in {"#", "encoding", "source"} else ""


class Layers(Page):
    """Every value that the HTP computes, beside what the CPU has.

    Filter: words that must all hold. A word is a text, field:pattern (op module tensor dtype source pass
    method reason), is:source, is:victim, is:fused, compared:no, or a comparison of local, acc, floor, effect,
    sat, elements: local>4lsb acc<40db local>10x effect>5%. ! in front turns a word round.
    """

    label = "Layers"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "filter", "Filter"),
        Binding("s", "sort(1)", "Sort"),
        Binding("S", "sort(-1)", "Sort by the column before", show=False),
        Binding("r", "reverse", "Reverse the order", show=False),
        Binding("right_square_bracket", "source(1)", "Next source"),
        Binding("left_square_bracket", "source(-1)", "Previous source", show=False),
        Binding("m", "group", "By module"),
        Binding("n", "next_hit(1)", "Next hit, or next source", show=False),
        Binding("N", "next_hit(-1)", "Previous hit, or previous source", show=False),
    ]

    def __init__(self, session: Session, query: str = "") -> None:
        super().__init__(session)
        self.query_text = query or ("compared:yes" if session.answer.coverage.compared else "")
        self.grouped = False
        self.columns = columns(session)
        self.by = 0
        self.falling = False
        self.fit: list[tuple[Column, int]] = []
        self.problem = ""
        self.rows: list[Row] = []
        self.shown = 0
        self._before = self.query_text
        self._known = 0
        self._wanted: LayerAt | None = None
        self._ordered: tuple[tuple[int, bool, int], Sequence[LayerResult]] = (
            (0, False, 0),
            session.answer.layers,
        )

    def body(self) -> Sequence[Widget]:
        """One table."""
        return (Sheet(self._table, id="layers"),)

    def on_mount(self) -> None:
        """Begin to count what is saturated; the column fills while one reads."""
        self.run_worker(self._count, thread=True, exclusive=True, name="saturation")
        self.set_interval(0.5, self._fill)

    def _count(self) -> None:
        if fill_in(self.session):
            self.app.call_from_thread(self._fill)

    def _fill(self) -> None:
        known = len(self.session.saturation)
        if known != self._known and self.is_attached:
            self._known = known
            self.query_one("#layers", Sheet).refresh()

    def _table(self, width: int) -> Content:
        self.rows = self._rows()
        self.shown = sum(not isinstance(row, str) for row in self.rows)
        self.fit = fitted(self.columns, widths(self.session), width)
        mark = (self.columns[self.by].name, "↓" if self.falling else "↑")
        return Table(self.session, self.rows, self.columns, self.fit, mark)

    def _rows(self) -> list[Row]:
        session = self.session
        known = query.Known(
            lambda layer: key_of(layer) in session.made,
            lambda layer: key_of(layer) in session.inherited,
            lambda layer: session.saturation.get(key_of(layer)),
            frozenset(session.answer.coverage.given),
        )
        try:
            test = query.parse(self.query_text, known)
        except query.QueryError as error:
            self.problem = str(error)
            return self.rows
        self.problem = ""
        found = [layer for layer in self._in_order() if test(layer)]
        return list(found) if not self.grouped else _grouped(found)

    def _in_order(self) -> Sequence[LayerResult]:
        """All layers as they are sorted now; kept, as no letter of a filter changes their order."""
        column = self.columns[self.by]
        order = (self.by, self.falling, len(self.session.saturation) if column.name == "sat%" else 0)
        if order != self._ordered[0]:
            rank = column.rank
            ranked = [(rank(layer), layer) for layer in self.session.answer.layers]
            having = [item for item in ranked if item[0] is not None]
            having.sort(key=lambda item: item[0], reverse=self.falling)  # type: ignore[arg-type,return-value]
            none = [layer for value, layer in ranked if value is None]
            self._ordered = (order, [*(layer for _, layer in having), *none])
        return self._ordered[1]

    def again(self, *, keep: bool = True) -> None:
        """Show the rows that are to be shown now; the cursor stays on its layer if that is among them."""
        sheet = self.query_one("#layers", Sheet)
        at = sheet.line.place if sheet.line is not None and keep else None
        sheet.rebuild(0)
        if isinstance(at, LayerAt):
            self.select(at)

    def select(self, key: LayerAt) -> None:
        """Put the cursor on a layer."""
        for i, row in enumerate(self.rows):
            if not isinstance(row, str) and key_of(row) == key:
                self.query_one("#layers", Sheet).cursor = i
                return

    def here(self) -> Place:
        """The layers."""
        return PageAt("layers")

    def stand_on(self, place: Place) -> None:
        """Put the cursor on the layer that it was on in the other recording."""
        self._wanted = place if isinstance(place, LayerAt) else None
        if self.rows:
            self.moved(self.sheet)

    def moved(self, _sheet: Sheet) -> None:
        """Go to that layer as soon as there are rows."""
        if self._wanted is not None and self.rows:
            wanted, self._wanted = self._wanted, None
            self.select(wanted)

    def status(self) -> Text:
        """What is shown, and by which order."""
        if self.problem:
            return Text(f" {units.BROKEN} {self.problem}", "bad")
        order = f"sorted by {self.columns[self.by].name} {'↓' if self.falling else '↑'}"
        filtered = f"filter: {self.query_text or 'none'}"
        out = query.without_unit(self.query_text, self.session.answer.layers)
        shown = f"{self.shown} of {len(self.session.answer.layers)} shown{out and f', {out}'}"
        text = f" {shown} · {order} · {filtered}"
        legend = f"   {units.MADE_HERE} made here  {units.INHERITED} inherited"
        room = self.size.width - len(text)
        return Text.assemble(text, (legend if room > len(legend) else "", "faint"))

    def opened(self, sheet: Sheet, line: Line) -> None:
        """Open a layer; of a module, show its layers alone."""
        if isinstance(line.data, dict) and line.data["module"]:
            self.query_text = f"{self.query_text} module:{line.data['module']}".strip()
            self.again(keep=False)
            self.show_status()
        else:
            super().opened(sheet, line)

    def action_sort(self, by: int) -> None:
        """Sort by the next column that is shown."""
        names = [column.name for column, _ in self.fit]
        if not names:
            return  # the terminal is too narrow for any
        current = self.columns[self.by].name
        at = (names.index(current) + by) % len(names) if current in names else 0
        self.sort_by(names[at])

    def sort_by(self, name: str) -> None:
        """Sort by a column, in the direction that is of use; turned round if it is sorted by already."""
        at = next(i for i, column in enumerate(self.columns) if column.name == name)
        self.falling = not self.falling if at == self.by else self.columns[at].falling
        self.by = at
        self.again(keep=False)

    def action_reverse(self) -> None:
        """Turn the order round."""
        self.falling = not self.falling
        self.again(keep=False)

    def on_sheet_heading_clicked(self, event: Sheet.HeadingClicked) -> None:
        """Sort by the column that was clicked."""
        left = SIGN
        for column, size in self.fit:
            if left <= event.column < left + size + GAP:
                self.sort_by(column.name)
                return
            left += size + GAP

    def action_group(self) -> None:
        """Put layers of a module together, or not."""
        self.grouped = not self.grouped
        self.again()

    def action_filter(self) -> None:
        """Type a filter; the table follows."""
        self._before = self.query_text
        self.ask("filter", f"{self.query_text} ".lstrip())  # ready for the next word

    def typed(self, prompt: str, text: str) -> None:
        """Follow the filter."""
        if prompt != "filter":
            super().typed(prompt, text)
            return
        if text.strip() == self.query_text:
            return
        self.query_text = text.strip()
        self.again(keep=False)
        self.show_status()

    def answer_dropped(self, prompt: str) -> None:
        """Use the filter from before."""
        super().answer_dropped(prompt)
        if prompt == "filter":
            self.query_text = self._before
            self.again()

    def action_source(self, by: int) -> None:
        """Go to the next layer that makes an error."""
        sheet = self.query_one("#layers", Sheet)
        size = len(self.rows)
        for step in range(1, size + 1):
            row = self.rows[(sheet.cursor + by * step) % size]
            if not isinstance(row, str) and key_of(row) in self.session.made:
                sheet.cursor = (sheet.cursor + by * step) % size
                return
        self.shell.say("no source among the layers that are shown")

    def action_next_hit(self, by: int) -> None:
        """Go to the next hit of a search; without one, to the next source."""
        if self.sheet.needle:
            super().action_next_hit(by)
        else:
            self.action_source(by)

    def table(self) -> tuple[str, list[list[object]]]:
        """All columns of the rows that are shown."""
        names: list[object] = [column.name for column in self.columns]
        rows = [row for row in self.rows if not isinstance(row, str)]
        cells: list[list[object]] = [[column.cell(row) for column in self.columns] for row in rows]
        return "layers", [names, *cells]


def _why_empty(session: Session) -> str:
    """Why there is no row."""
    failure = session.recording.manifest.failure
    if session.answer.layers:
        return "no layer; Esc in the filter, or f and an empty line, shows all"
    why = f": the step {failure.step} failed; 1 says how, 2 where" if failure is not None else ""
    return f"nothing was compared{why}"


def _grouped(layers: Sequence[LayerResult]) -> list[Row]:
    """Layers by module, each group below its name; groups in the order of their first layer."""
    groups: dict[str, list[LayerResult]] = {}
    for layer in layers:
        groups.setdefault(layer.module, []).append(layer)
    rows: list[Row] = []
    for name, found in groups.items():
        rows += [name, *found]
    return rows

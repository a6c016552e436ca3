"""The first page over two recordings: where they part, what became of the numbers, and the way to either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget

from qnndbg.errors import QnndbgError
from qnndbg.model.diff import Diff
from qnndbg.report import units
from qnndbg.tui import diff_lines
from qnndbg.tui.both import Both
from qnndbg.tui.page import Page
from qnndbg.tui.sheet import Content, Line, Lines, Sheet


class DiffPage(Page):
    """How two recordings differ: side A is the one that was named first.

    Enter opens a line in B, or in A where only that has it; a opens it in A. From there, b goes to the same
    place in the other recording.
    """

    label = "Diff"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "open_in_a", "Open in A"),
        Binding("o", "everything", "All/few"),
    ]

    def __init__(self, both: Both) -> None:
        super().__init__(both.b)
        self.both = both
        self.corner = f"A {both.a.name} · B {both.b.name} "
        self.everything = False
        self.found: Diff | None = None
        self.problem = ""

    def body(self) -> Sequence[Widget]:
        """One sheet."""
        return (Sheet(self._lines, id="diff"),)

    def on_mount(self) -> None:
        """Compare them."""
        self.run_worker(self._compare, thread=True, exclusive=True, name="diff")

    def _compare(self) -> None:
        try:
            found = self.both.diff
        except QnndbgError as error:
            self.problem = error.fact
        else:
            self.found = found
        self.app.call_from_thread(self._show)

    def _show(self) -> None:
        if self.is_attached:
            self.query_one("#diff", Sheet).rebuild(0)

    def _lines(self, width: int) -> Content:
        if self.problem:
            return Lines([Line(Text(f"{units.BROKEN} {self.problem}", "bad"))])
        if self.found is None:
            return Lines([Line(Text("  comparing the two recordings …", "faint"))])
        a, b = self.both.a, self.both.b
        return Lines([*diff_lines.lines_of(self.found, a, b, width, everything=self.everything)])

    def status(self) -> Text:
        """How to go on."""
        return Text(" Enter opens a line in B, a in A; from there, b goes to the other side", "faint")

    def opened(self, _sheet: Sheet, line: Line) -> None:
        """Open it in B, else in A."""
        self._open(line, "b")

    def action_open_in_a(self) -> None:
        """Open the line in A."""
        if self.sheet.line is not None:
            self._open(self.sheet.line, "a")

    def _open(self, line: Line, side: str) -> None:
        linked = line.data
        if not isinstance(linked, diff_lines.Linked) or (linked.a, linked.b) == (None, None):
            self.shell.say("there is nothing behind this line")
            return
        place = linked.a if side == "a" else linked.b
        if place is None:
            side, place = ("b", linked.b) if side == "a" else ("a", linked.a)
        if place is not None:
            self.shell.session = self.both.a if side == "a" else self.both.b
            self.shell.go(place)

    def action_everything(self) -> None:
        """Show everything that differs, or the first of it."""
        self.everything = not self.everything
        self.query_one("#diff", Sheet).rebuild(0)

    def table(self) -> tuple[str, list[list[object]]] | None:
        """The layers that differ."""
        if self.found is None:
            return None
        rows: list[list[object]] = [["status", "tensor A", "tensor B", "local dB A", "local dB B", "changes"]]
        for layer in self.found.layers:
            names = [side.tensor if side else "" for side in (layer.a, layer.b)]
            errors = [side.local.sqnr_db if side and side.local else None for side in (layer.a, layer.b)]
            rows.append([layer.status, *names, *errors, ", ".join(change.what for change in layer.changes)])
        return "diff", rows

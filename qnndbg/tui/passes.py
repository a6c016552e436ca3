"""The passes: a timeline of all of them, and for the one under the cursor what it did to the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import get_current_worker

from qnndbg.analyze.side_by_side import Row
from qnndbg.errors import QnndbgError
from qnndbg.model.recording import PassEvent
from qnndbg.report import units
from qnndbg.tui import pass_diff, pass_list
from qnndbg.tui.page import Page
from qnndbg.tui.places import GraphAt, PageAt, PassAt, Place
from qnndbg.tui.sheet import Content, Line, Lines, Sheet
from qnndbg.tui.state import Session
from qnndbg.tui.words import wrapped

SETTLE = 0.05
"""Seconds that the cursor must rest on a pass before its graphs are loaded."""


class Passes(Page):
    """All passes that ran, in their order, and what each did to the graph.

    ~ changed the graph; ▲ changed the numbers; ✗ failed. A pass that only says that it changed the graph
    did not: the structure is compared.
    """

    label = "Passes"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right_square_bracket", "next_change(1)", "Next change"),
        Binding("left_square_bracket", "next_change(-1)", "Previous change", show=False),
        Binding("o", "everything", "All/changes"),
        Binding("e", "edge", "Edge graph"),
        Binding("z", "zoom", "Zoom"),
        Binding("tab", "other", "Other half", show=False),
    ]
    DEFAULT_CSS = """
    Passes #passes { height: 2fr; }
    Passes #diff { height: 3fr; border-top: solid $primary 40%; }
    Passes.zoomed #passes { display: none; }
    """

    def __init__(self, session: Session, position: int | None = None) -> None:
        super().__init__(session)
        self.position = position
        self.unfolded: set[object] = set()
        self.everything = False
        self.shown: PassEvent | None = None
        self.rows: tuple[Row, ...] = ()
        self.problem = ""
        self.reading = False
        self._timer: Timer | None = None
        self._opening = position is None
        """Whether the cursor will rest where it is put first."""

    def body(self) -> Sequence[Widget]:
        """The passes above, the graphs below."""
        return (Sheet(self._passes, id="passes"), Sheet(self._diff, id="diff"))

    def on_mount(self) -> None:
        """Begin to count nodes; the column fills while one reads."""
        self.run_worker(self._count, thread=True, exclusive=True, group="nodes", name="nodes")
        if self.position is not None:
            self.call_after_refresh(self.select, self.position)

    def _count(self) -> None:
        worker, late = get_current_worker(), False
        for _ in pass_list.count_nodes(self.session):
            self.session.wait_for_rest()
            if worker.is_cancelled:
                return
            late = True
        if late:
            self.app.call_from_thread(self._counted)

    def _counted(self) -> None:
        if self.is_attached:
            self.query_one("#passes", Sheet).refresh()

    def _passes(self, width: int) -> Content:
        return _Late(self.session, self.unfolded, width)

    def select(self, position: int) -> None:
        """Put the cursor on a pass, unfolding its stage if it is not shown."""
        sheet = self.query_one("#passes", Sheet)
        for _ in range(2):
            for i in range(len(sheet.content)):
                if sheet.content.line(i).place == PassAt(position):
                    sheet.cursor = i
                    return
            for group in pass_list.groups_of(self.session):
                if any(i == position for i, _event in group.events):
                    self.unfolded.add(group.key)
            sheet.rebuild()

    def moved(self, sheet: Sheet) -> None:
        """Show another pass once the cursor rests on it."""
        if sheet.id != "passes" or sheet.line is None:
            return
        if self._timer is not None:
            self._timer.stop()
        if self._opening:
            self._opening = False
            self._load()
        else:
            self._timer = self.set_timer(SETTLE, self._load)

    def _load(self) -> None:
        line = self.query_one("#passes", Sheet).line
        event = line.data if line is not None and isinstance(line.data, PassEvent) else None
        if event is self.shown and event is not None:
            return
        self.shown, self.rows, self.problem, self.reading = event, (), "", False
        if event is not None and event.changed:
            self.reading = True
            self.run_worker(lambda: self._read(event), thread=True, exclusive=True, group="diff", name="diff")
        self.query_one("#diff", Sheet).rebuild(0)

    def _read(self, event: PassEvent) -> None:
        """Load and align two graphs; in a thread, since those of a large model take a while."""
        rows: tuple[Row, ...] = ()
        problem = ""
        try:
            rows = self.session.rows_of(event.before, event.after)
        except QnndbgError as error:
            problem = error.fact
        self.app.call_from_thread(self._align, event, rows, problem)

    def _align(self, event: PassEvent, rows: tuple[Row, ...], problem: str) -> None:
        if event is self.shown and self.is_attached:
            self.rows, self.problem, self.reading = rows, problem, False
            self.query_one("#diff", Sheet).rebuild(0)

    def _diff(self, width: int) -> Content:
        event = self.shown
        if event is None:
            known = self.session.passes
            why = "Enter on a stage shows all of its passes, or only those that changed it"
            return Lines([Line(Text(f"  {why if known else 'no passes were recorded'}", "faint"))])
        where = (event.stage, event.method, event.partition)
        return pass_diff.Sides(
            self._about(event, width),
            self.rows,
            width,
            GraphAt(*where, digest=event.before),
            GraphAt(*where, digest=event.after),
            everything=self.everything,
        )

    def _about(self, event: PassEvent, width: int) -> Sequence[Line]:
        counts = [
            (sum(r.before is None for r in self.rows), "made"),
            (sum(r.after is None for r in self.rows), "gone"),
            (sum(bool(r.changed) for r in self.rows), "changed"),
        ]
        did = ", ".join(f"{n} {word}" for n, word in counts if n) or "no change of the graph"
        did = "reading the graphs …" if self.reading else did
        texts = [Text.assemble((event.name, "title"), (f"  {did}", "strong"), f"  of {event.stage}")]
        if event.claimed_modified and not event.changed:
            texts.append(Text("  it says that it modified the graph; the structure is the same", "faint"))
        if moved := pass_list.blamed(self.session).get(event.index):
            texts.append(Text(f"{units.MADE_HERE} the numbers differ from here on: {moved}", "made"))
        for problem in (event.error and f"failed: {event.error}", self.problem):
            texts += [Text(part, "bad") for part in wrapped(problem, width)] if problem else []
        return [Line(text, data=event, stop=n == 0) for n, text in enumerate(texts)]

    def here(self) -> Place:
        """The pass under the cursor, or the passes."""
        line = self.query_one("#passes", Sheet).line
        return line.place if line is not None and line.place is not None else PageAt("passes")

    def status(self) -> Text:
        """How many passes ran, and what the cursor is on."""
        runs = [event for event in self.session.passes if event.name]
        failed = sum(bool(event.error) for event in runs)
        changed = sum(event.changed for event in runs)
        shown = "all nodes" if self.everything else "changes only"
        text = f" {len(runs)} passes ran · {changed} changed the graph · {shown}"
        if not runs:
            text = " no passes were recorded"
        return Text.assemble(text, (f" · {failed} failed" if failed else "", "bad"))

    def opened(self, sheet: Sheet, line: Line) -> None:
        """A stage folds, a pass shows its graphs, a node is opened."""
        data = line.data
        if sheet.id == "diff":
            super().opened(sheet, line)
        elif isinstance(data, pass_list.Group):
            self.unfolded ^= {data.key}
            sheet.rebuild()
        else:
            self._load()
            self.query_one("#diff", Sheet).focus()

    def action_back(self) -> None:
        """From the graphs to the passes first."""
        passes = self.query_one("#passes", Sheet)
        if self.has_class("zoomed"):
            self.action_zoom()
        elif self.focused is not passes and not self.sheet.needle:
            passes.focus()
        else:
            super().action_back()

    def action_other(self) -> None:
        """Move between the passes and the graphs."""
        passes, diff = self.query_one("#passes", Sheet), self.query_one("#diff", Sheet)
        (diff if self.focused is passes else passes).focus()

    def action_zoom(self) -> None:
        """Give the graphs the whole screen, or not."""
        self.toggle_class("zoomed")
        self.query_one("#diff" if self.has_class("zoomed") else "#passes", Sheet).focus()

    def action_everything(self) -> None:
        """Show all nodes, or only those that changed."""
        self.everything = not self.everything
        self.query_one("#diff", Sheet).rebuild(0)
        self.show_status()

    def action_next_change(self, by: int) -> None:
        """Go to the next pass that changed something or failed."""
        sheet = self.query_one("#passes", Sheet)
        size = len(sheet.content)
        for step in range(1, size + 1):
            index = (sheet.cursor + by * step) % size
            data = sheet.content.line(index).data
            if isinstance(data, PassEvent) and pass_list.notable(self.session, data):
                sheet.cursor = index
                return
        self.shell.say("no pass changed anything")

    def action_edge(self) -> None:
        """Open the graph that to_backend gets."""
        at = self.session.edge_graph(self.shown.method if self.shown is not None else "forward")
        if at is None:
            self.shell.say("the lowering did not get as far as the edge graph", bad=True)
        else:
            self.shell.go(at)

    def table(self) -> tuple[str, list[list[object]]]:
        """All pass runs."""
        names = (
            "index",
            "stage",
            "method",
            "partition",
            "name",
            "changed",
            "claimed_modified",
            "seconds",
            "error",
        )
        rows = [[getattr(event, name) for name in names] for event in self.session.passes if event.name]
        return "passes", [list(names), *rows]


class _Late(Lines):
    """Lines of passes, whose node counts come later."""

    def __init__(self, session: Session, unfolded: set[object], width: int) -> None:
        super().__init__([*pass_list.lines_of(session, unfolded, width)])
        self.session, self.width = session, width

    def line(self, index: int) -> Line:
        line = self.lines[index]
        if not isinstance(line.data, PassEvent) or not isinstance(line.place, PassAt):
            return line
        text = pass_list.pass_text(self.session, line.place.position, line.data, self.width)
        return Line(text, line.place, line.data)

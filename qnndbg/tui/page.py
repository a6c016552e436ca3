"""What all screens share: the line that says where one is, search, copying, export, and the line of keys."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import msgspec
from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from qnndbg.report import units
from qnndbg.tui.keys import KeyLine
from qnndbg.tui.places import LayerAt, Place
from qnndbg.tui.sheet import Line, Lines, Sheet
from qnndbg.tui.state import Session
from qnndbg.tui.styles import styles_of
from qnndbg.tui.words import clipped, cut

if TYPE_CHECKING:
    from qnndbg.tui.app import QnndbgApp


MOST = 4
"""Lines of a message."""


class Where(Static):
    """The breadcrumb on the first line; what is known of the recording to its right."""

    DEFAULT_CSS = "Where { height: 1; background: $panel; color: $text; }"


class Page(Screen[None]):
    """One screen over a recording.

    Args:
        session: what to look things up in.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "back", "Back"),
        Binding("slash", "search", "Search"),
        Binding("n", "next_hit(1)", "Next hit", show=False),
        Binding("N", "next_hit(-1)", "Previous hit", show=False),
        Binding("c", "copy_line", "Copy the line", show=False),
        Binding("C", "copy_page", "Copy the page", show=False),
        Binding("J", "copy_json", "Copy the line's data as JSON", show=False),
        Binding("b", "cross", "Other side"),
        Binding("x", "export", "Export the table as CSV", show=False),
        Binding("O", "browse", "Open in the HTML report", show=False),
    ]
    DEFAULT_CSS = """
    Page > #ask { height: 1; display: none; }
    Page > #ask > Static { width: auto; padding: 0 1; color: $text-primary; }
    Page > #ask > Input { width: 1fr; height: 1; border: none; padding: 0; background: $surface; }
    Page > #status { height: 1; color: $text-muted; }
    """
    AUTO_FOCUS = "Sheet"
    label: str = ""
    """How the breadcrumb calls it."""
    corner: str = ""
    """What stands at the right end of that line, if not the recording."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._asked = ""
        self._from: tuple[Sheet, int] = (Sheet(lambda _width: Lines(())), 0)

    @property
    def shell(self) -> QnndbgApp:
        """The application."""
        return cast("QnndbgApp", self.app)

    def body(self) -> Sequence[Widget]:
        """The sheets; the first has the cursor."""
        raise NotImplementedError  # abstract; the metaclass of Textual leaves no room for ABC

    def table(self) -> tuple[str, list[list[object]]] | None:
        """The name of its table and the rows of it, headings first; None if it has none."""
        return None

    def status(self) -> Text:
        """One line below the body."""
        return Text()

    def compose(self) -> ComposeResult:
        """Lay it out."""
        yield Where(id="where", markup=False)
        yield from self.body()
        yield Static(id="status", markup=False)
        with Horizontal(id="ask"):
            yield Static(id="prompt", markup=False)
            yield Input(id="answer", select_on_focus=False)
        yield KeyLine()

    def on_mount(self) -> None:
        """Say where one is."""
        self.show_where()

    def on_screen_resume(self) -> None:
        """Say it again; the width, and the recording that is looked at, may have changed meanwhile."""
        self.shell.session = self.session
        self.show_where()

    def on_resize(self, _event: events.Resize) -> None:
        """Fit it to the width."""
        self.show_where()

    def show_where(self) -> None:
        """Fill in the breadcrumb."""
        width = self.size.width
        if not width:
            return
        crumbs = [page.label for page in self.shell.trail.path(self.shell.first)]
        manifest = self.session.recording.manifest
        both = self.shell.both
        side = "" if both is None else "A " if self.session is both.a else "B "
        name = side + self.session.name
        job = self.shell.running
        progress = f"◌ {job.brief} · 7" if job is not None else self.corner
        if job is not None and len(progress) > width // 2:
            progress = f"◌ {job.words[0]} · 7"
        facts = (progress, f"{name} · {manifest.precision} · {manifest.soc}", name, side.strip(), "")
        room = width - sum(map(cell_len, crumbs[-1:])) - 6
        right = next(f"{fact} " for fact in facts[not progress :] if cell_len(fact) <= room or not fact)
        path = clipped(" › ".join(crumbs), width - cell_len(right) - 2, units.clip_left)
        left = Text.assemble(" ", (path, "bold"))
        room = width - left.cell_len - cell_len(right)
        if right:
            left.append(" " * room)
            left.append(right, "dim")
        left.plain = left.plain.translate(units.CONTROLS)
        self.query_one(Where).update(left, layout=False)

    def show_status(self) -> None:
        """Fill in the line below the body."""
        told = self.shell.told
        self.tell(self.status() if told is None else told)

    def tell(self, text: Text) -> None:
        """Write the line below the body, or as many as it takes to say what needs to be read to its end."""
        if not self.size.width:
            return
        told = text is self.shell.told
        width = self.size.width
        parts = [text[at : at + width] for at in range(0, max(len(text), 1), width)] if told else []
        shown = Text("\n", end="").join(parts[:MOST]) if told else cut(text, width)
        for status in self.query("#status").results(Static):  # none while the page is made
            status.styles.height = max(len(parts[:MOST]), 1)
            status.update(styled(self, shown), layout=False)

    @property
    def sheet(self) -> Sheet:
        """The sheet that keys go to."""
        return self.focused if isinstance(self.focused, Sheet) else self.query(Sheet).first()

    def on_sheet_moved(self, event: Sheet.Moved) -> None:
        """Keep the status up to date."""
        if event.sheet.is_attached:
            self.show_status()
            self.moved(event.sheet)

    def moved(self, sheet: Sheet) -> None:
        """React to the cursor. A hook, since Textual calls the handlers of all base classes too."""

    def on_sheet_opened(self, event: Sheet.Opened) -> None:
        """Open the line."""
        self.opened(event.sheet, event.line)

    def opened(self, _sheet: Sheet, line: Line) -> None:
        """Go where the line leads."""
        if line.place is not None:
            self.shell.go(line.place)
        else:
            self.shell.say("there is nothing behind this line")

    def offers(self, action: str) -> bool:
        """There is nothing before the first page, and no other side of one recording."""
        if action == "cross":
            return self.shell.both is not None and self.here() is not None
        return action != "back" or self is not self.shell.first or bool(self.sheet.needle)

    def job_moved(self) -> None:
        """React to the progress of a job. A hook."""

    def here(self) -> Place | None:
        """What the page shows, to find it in another recording."""
        return None

    def stand_on(self, place: Place) -> None:
        """Put the cursor on a line, come from the other recording. A hook."""

    def action_cross(self) -> None:
        """Go to the same place in the other recording."""
        self.shell.cross(self.here())

    def action_back(self) -> None:
        """Leave a search, else go to the page before."""
        if any(sheet.needle for sheet in self.query(Sheet)):
            for sheet in self.query(Sheet):
                sheet.needle = ""
                sheet.refresh()
            self.show_status()
        else:
            self.shell.back()

    def action_run_key(self, key: str) -> None:
        """Do what a key does; for clicks on its name."""
        self.app.simulate_key(key)

    # Asking for a line of text -------------------------------------------------------------------

    def ask(self, prompt: str, value: str = "") -> None:
        """Open the line in which a search or a filter is typed."""
        self._asked = prompt
        self.query_one("#prompt", Static).update(prompt)
        answer = self.query_one("#answer", Input)
        self.query_one("#ask").display = True
        with self.prevent(Input.Changed):
            answer.value = value
        answer.cursor_position = len(value)
        self.set_focus(answer)  # at once, for what is typed or pasted next

    def action_search(self) -> None:
        """Type what to look for; the cursor moves while one types."""
        self._from = self.sheet, self.sheet.cursor
        self.ask("search")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Follow what is typed."""
        self.typed(self._asked, event.value)

    def typed(self, prompt: str, text: str) -> None:
        """React to a text while it is typed."""
        if prompt == "search":
            sheet, start = self._from
            if text and not sheet.find(text, start=start):
                self.tell(Text(f" no line has {text!r}", "warn"))
            elif not text:
                sheet.needle = ""
                sheet.cursor = start

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the answer, or start what was asked for."""
        self.close_ask()
        if self._asked.startswith("qnndbg "):
            self.shell.start(self._asked.removeprefix("qnndbg "), event.value)

    def on_key(self, event: events.Key) -> None:
        """Escape closes the line that is typed in, and Tab does not leave it open."""
        if event.key in {"escape", "tab", "shift+tab"} and isinstance(self.focused, Input):
            event.stop()
            event.prevent_default()
            if event.key == "escape":
                self.answer_dropped(self._asked)
                self.close_ask()

    def answer_dropped(self, prompt: str) -> None:
        """Undo what was typed."""
        if prompt == "search":
            sheet, start = self._from
            sheet.needle = ""
            sheet.cursor = start

    def close_ask(self) -> None:
        """Give the keys back to the sheet."""
        self.query_one("#ask").display = False
        (self._from[0] if self._asked == "search" else self.query(Sheet).first()).focus()

    def action_next_hit(self, by: int) -> None:
        """Go to the next line with the text that was searched for."""
        sheet = self.sheet
        if sheet.needle:
            sheet.find(sheet.needle, start=sheet.cursor + by, by=by)
        else:
            self.action_search()

    # Taking data along ---------------------------------------------------------------------------

    def action_copy_line(self) -> None:
        """Copy the line under the cursor."""
        if self.sheet.line is not None:
            self.shell.copy(self.sheet.content.whole(self.sheet.cursor).strip(), "the line")

    def action_copy_page(self) -> None:
        """Copy everything that the sheet holds."""
        self.shell.copy(self.sheet.plain(), "the page")

    def action_copy_json(self) -> None:
        """Copy the data behind the line."""
        line = self.sheet.line
        if line is None or line.data is None:
            self.shell.say("this line has no data of its own; c copies its text", bad=True)
            return
        text = msgspec.json.format(msgspec.json.encode(line.data, enc_hook=str), indent=2)
        self.shell.copy(text.decode(), "the data")

    def action_export(self) -> None:
        """Write the table to a file in the current folder."""
        table = self.table()
        if table is None:
            self.shell.say("there is no table here; C copies the page as text", bad=True)
            return
        name, rows = table
        try:
            path = free_path(Path(f"{Path(self.session.name).stem}-{name}.csv"))
            path.write_text(csv_of(rows), encoding="utf-8")
        except OSError as error:
            self.shell.say(f"it cannot be written here: {error.strerror}", bad=True)
            return
        self.shell.say(f"wrote {path}: {len(rows) - 1} rows")

    def action_browse(self) -> None:
        """Open the HTML report at the layer that is shown, at what is under the cursor, or at the page."""
        line, here = self.sheet.line, self.here()
        under = line.place if line is not None else None
        self.shell.browse(
            self.session, under if under is not None and not isinstance(here, LayerAt) else here
        )


def styled(widget: Widget, text: Text) -> Text:
    """A text with the styles that the theme gives their names."""
    styles = styles_of(widget.app)
    found = Text(text.plain, end="")
    for span in text.spans:
        style = span.style if not isinstance(span.style, str) else styles.console.get_style(span.style)
        found.stylize(style, span.start, span.end)
    if isinstance(text.style, str) and text.style:
        found.stylize(styles.console.get_style(text.style))
    return found


def csv_of(rows: list[list[object]]) -> str:
    """Rows as CSV; None is an empty cell."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def free_path(path: Path) -> Path:
    """The path, or one with a number behind it that nothing has yet."""
    number, found = 2, path
    while found.exists():
        found = path.with_name(f"{path.stem}-{number}{path.suffix}")
        number += 1
    return found


def blank() -> Line:
    """A line between two sections."""
    return Line(Text(), stop=False)


def title(text: str, rest: str = "") -> Line:
    """A line above a section."""
    return Line(Text.assemble((text, "title"), (f"  {rest}" if rest else "", "faint")), stop=False)

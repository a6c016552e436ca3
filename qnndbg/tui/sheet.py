"""The widget that draws lines: scrolls, moves a cursor, finds text, and asks for only what is visible.

Every screen is made of these, so that keys, mouse, search and copying are the same everywhere. A sheet knows
nothing of recordings; it gets a :class:`Content` and tells which line was opened.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from qnndbg.tui.places import Place
from qnndbg.tui.styles import Styles, styles_of

CONTROL = dict.fromkeys((*range(32), *range(127, 160)), "\N{REPLACEMENT CHARACTER}")
"""A recording may come from a stranger, whose names must not reach the terminal as escape sequences."""

REVERSE = Style(reverse=True)


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is ready to be drawn."""

    text: Text
    place: Place | None = None
    """Where opening it leads."""
    data: object = None
    """What it shows, for a copy as JSON."""
    stop: bool = True
    """The cursor may stand on it."""


class Content(Protocol):
    """Lines that are made when they are asked for."""

    def __len__(self) -> int:
        """How many there are."""

    def line(self, index: int) -> Line:
        """One of them."""

    def heading(self) -> Text | None:
        """A line that stays above them."""

    def whole(self, index: int) -> str:
        """One of them for the clipboard: with what it has no room for on the screen."""

    def whole_heading(self) -> str:
        """What stays above them, likewise."""


class Whole(ABC):
    """Content whose lines are copied as they are made; the sheet cuts what is too long for the screen."""

    @abstractmethod
    def line(self, index: int) -> Line:
        """One of them."""

    def heading(self) -> Text | None:
        """What stays above them."""
        return None

    def whole(self, index: int) -> str:
        """One of them for the clipboard."""
        return self.line(index).text.plain.rstrip()

    def whole_heading(self) -> str:
        """What stays above them, likewise."""
        heading = self.heading()
        return "" if heading is None else heading.plain.rstrip()


class Lines(Whole):
    """Content that is made already."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)

    def line(self, index: int) -> Line:
        """One of them."""
        return self.lines[index]


Build = Callable[[int], Content]
"""Makes the content for a width in cells."""


class Sheet(ScrollView, can_focus=True, inherit_bindings=False):
    """Lines with a cursor.

    Args:
        build: makes the content; called again when the width changes.
        id: as for every widget.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+f,space", "page(1)", "Page down", show=False),
        Binding("home,g", "end(-1)", "First line", show=False),
        Binding("end,G", "end(1)", "Last line", show=False),
        Binding("enter", "open", "Open"),
    ]
    DEFAULT_CSS = (
        "Sheet { height: 1fr; scrollbar-size-vertical: 1; scrollbar-gutter: stable; overflow-x: hidden; }"
    )

    cursor: reactive[int] = reactive(0, repaint=False)

    class Opened(Message):
        """A line that leads somewhere was opened."""

        def __init__(self, sheet: Sheet, line: Line) -> None:
            super().__init__()
            self.sheet = sheet
            self.line = line

    class Moved(Message):
        """The cursor stands on another line."""

        def __init__(self, sheet: Sheet) -> None:
            super().__init__()
            self.sheet = sheet

    class HeadingClicked(Message):
        """The heading was clicked."""

        def __init__(self, sheet: Sheet, column: int) -> None:
            super().__init__()
            self.sheet = sheet
            self.column = column

    def __init__(self, build: Build, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.build = build
        self.content: Content = Lines(())
        self.needle = ""
        self._built = -1
        self._searched: dict[int, str] = {}
        self._fresh = True
        self._heading: Text | None = None
        self._base = Style()
        self._styles: Styles | None = None

    def on_mount(self) -> None:
        """Follow the theme."""
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self.refresh())

    def on_resize(self, _event: events.Resize) -> None:
        """Build again for another width."""
        if self.columns and self._built != self.columns:
            self.rebuild()

    def rebuild(self, cursor: int | None = None) -> None:
        """Make the content anew; the cursor stays unless another place is given."""
        width = self.columns
        if not width:
            return
        self._built = width
        self.content = self.build(width)
        self._searched = {}
        self._heading = self.content.heading()
        self.virtual_size = Size(width, len(self.content) + self._head)
        first = cursor is None and self._fresh
        self._fresh = False
        wanted = self._first_place() if first else self.cursor if cursor is None else cursor
        self.set_reactive(Sheet.cursor, self._stop(wanted, 1))
        self.refresh()
        self._follow(show_top=first)
        self.post_message(self.Moved(self))

    def _first_place(self) -> int:
        lines = (self.content.line(i) for i in range(min(len(self.content), 60)))
        return next((i for i, line in enumerate(lines) if line.stop and line.place), 0)

    @property
    def _head(self) -> int:
        return 0 if self._heading is None else 1

    @property
    def columns(self) -> int:
        """Cells of a line, beside the scrollbar."""
        return self.scrollable_content_region.width

    @property
    def line(self) -> Line | None:
        """The one under the cursor."""
        return self.content.line(self.cursor) if self.cursor < len(self.content) else None

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw what is visible; styles are slow to find, and the same for all lines."""
        self._base, self._styles = self.rich_style, styles_of(self.app)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        width = self.columns
        if self._heading is not None and y == 0:
            return self._strip(self._heading, width, "heading")
        index = y - self._head + self.scroll_offset.y
        if not 0 <= index < len(self.content):
            return Strip.blank(width, self._base)
        text = self.content.line(index).text
        if self.needle:
            text = text.copy()
            text.highlight_regex(_literal(self.needle), "found")
        here = index == self.cursor
        return self._strip(text, width, ("cursor" if self.has_focus else "cursor.away") if here else "")

    def _strip(self, text: Text, width: int, over: str) -> Strip:
        styles = self._styles or styles_of(self.app)
        top = styles.get(over) if over else Style()
        base = self._base + styles.console.get_style(text.style)
        plain = self.app.no_color and over == "cursor"  # one block, not patches of greys
        drawn = []
        if len(text) > width // 2 and text.cell_len > width:  # a letter takes two cells at most
            text = text.copy()
            text.rstrip()
            text.truncate(width, overflow="ellipsis")
        for segment in text.render(styles.console):
            style = base if segment.style is None or plain else base + segment.style
            drawn.append(Segment(segment.text.translate(CONTROL), style + top))
        strip = Strip(drawn).adjust_cell_length(width, base + top)
        return strip.apply_style(REVERSE) if plain else strip

    def validate_cursor(self, cursor: int) -> int:
        """Keep it inside."""
        return max(0, min(cursor, len(self.content) - 1))

    def watch_cursor(self, old: int, new: int) -> None:
        """Draw the two lines that change."""
        for index in (old, new):
            y = index - self.scroll_offset.y + self._head
            self.refresh(Region(0, y, self.columns, 1))
        self._follow()
        self.post_message(self.Moved(self))

    def on_focus(self) -> None:
        """Show the cursor."""
        self.refresh()

    def on_blur(self) -> None:
        """Show that the cursor is elsewhere."""
        self.refresh()

    def _follow(self, *, show_top: bool = False) -> None:
        """Scroll so that the cursor is visible; lines without a stop above the first one too."""
        rows = self.size.height - self._head
        top = int(self.scroll_offset.y)
        index = self.cursor
        if show_top and index < rows:
            wanted = 0
        elif index < top:
            wanted = index if self._stop(index - 1, -1) < index else 0
        elif index >= top + rows:
            wanted = index - rows + 1
        else:
            return
        self.scroll_to(y=wanted, animate=False, immediate=True, force=True)
        self.refresh()

    def _stop(self, index: int, direction: int) -> int:
        """The next line in a direction on which the cursor may stand; else the last one in the other."""
        size = len(self.content)
        for step in (direction, -direction):
            at = max(0, min(index, size - 1))
            while 0 <= at < size:
                if self.content.line(at).stop:
                    return at
                at += step
        return 0

    def action_move(self, by: int) -> None:
        """To the next line; scrolls where no line to stand on is left."""
        to = self._stop(self.cursor + by, by)
        if (to - self.cursor) * by > 0:
            self.cursor = to
        else:
            self.scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        """A screen up or down."""
        rows = max(self.size.height - self._head - 1, 1)
        self.cursor = self._stop(self.cursor + by * rows, -by)

    def action_end(self, to: int) -> None:
        """To the first or last line."""
        if to < 0:
            self.cursor = self._stop(0, 1)
            self.scroll_home(animate=False)
        else:
            self.cursor = self._stop(len(self.content) - 1, -1)
            self.scroll_end(animate=False)

    def action_open(self) -> None:
        """Open the line under the cursor."""
        line = self.line
        if line is not None:
            self.post_message(self.Opened(self, line))

    def on_click(self, event: events.Click) -> None:
        """One click selects, a click on what is selected opens."""
        if event.y < self._head:
            self.post_message(self.HeadingClicked(self, event.x))
            return
        index = event.y - self._head + int(self.scroll_offset.y)
        if not 0 <= index < len(self.content) or not self.content.line(index).stop:
            return
        if index == self.cursor:
            self.action_open()
        else:
            self.cursor = index

    def find(self, needle: str, *, start: int, by: int = 1) -> bool:
        """Move to the next line with a text, case aside; whether there is one."""
        self.needle = needle
        self.refresh()
        size, lowered = len(self.content), _plain(needle)
        for step in range(size):
            index = (start + by * step) % size
            if lowered in self._words(index):
                self.cursor = index
                return True
        return False

    def _words(self, index: int) -> str:
        """What is searched in a line; kept, as the next letter that is typed searches all lines again."""
        if index not in self._searched:
            line = self.content.line(index)
            self._searched[index] = _plain(line.text.plain) if line.stop else ""
        return self._searched[index]

    def plain(self) -> str:
        """All lines as text."""
        lines = [] if self._heading is None else [self.content.whole_heading()]
        lines += [self.content.whole(i) for i in range(len(self.content))]
        return "\n".join(lines)


def _plain(text: str) -> str:
    """A text as it is searched: case aside, and a minus sign as one types it."""
    return text.lower().replace("−", "-")


def _literal(needle: str) -> str:
    return "(?i)" + "[-−]".join(map(re.escape, re.split("[-−]", needle)))

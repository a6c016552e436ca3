"""The application: which page is on top, how one gets from one to another, and what works on all of them."""

from __future__ import annotations

import inspect
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.events import Event, Key, MouseEvent

from qnndbg.errors import QnndbgError
from qnndbg.recording.store import Recording
from qnndbg.tui.keys import Help
from qnndbg.tui.page import Page
from qnndbg.tui.places import PageAt, Place
from qnndbg.tui.state import Session

if TYPE_CHECKING:
    from qnndbg.tui.both import Both


def _commands() -> type[Provider]:
    from qnndbg.tui.palette import Commands

    return Commands


def _places() -> type[Provider]:
    from qnndbg.tui.palette import Places

    return Places


MAIN = ("overview", "passes", "layers", "graph", "findings")


class QnndbgApp(App[None]):
    """The terminal UI over a recording.

    Args:
        recording: complete or not.
        source: the folder that source files are looked for in.
        other: a second recording, to look at what differs.
    """

    TITLE = "qnndbg"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(i), f"main('{name}')", name.title()) for i, name in enumerate(MAIN, 1)),
        Binding("6", "main('diff')", "Diff"),
        Binding("question_mark", "help", "Help"),
        Binding("ctrl+p,colon", "command_palette", "Commands", show=False),
        Binding("T", "next_theme", "Next theme", show=False),
        Binding("q", "quit", "Quit"),
    ]
    CSS = "Screen { layers: base; } Toast { max-width: 70; }"
    COMMANDS = App.COMMANDS | {_commands, _places}

    def __init__(self, recording: Recording, source: Path = Path(), other: Recording | None = None) -> None:
        super().__init__()
        self.session = Session(recording)
        self.source = source
        self.both = None if other is None else _both(self.session, Session(other))
        self.home = "overview" if self.both is None else "diff"

    def on_mount(self) -> None:
        """Begin with the answer."""
        self.animation_level = "none"
        self.go(PageAt(self.home))

    async def on_event(self, event: Event) -> None:
        """Note when a key is pressed, so that work behind the screen can wait."""
        if isinstance(event, (Key, MouseEvent)):
            self.session.touched = time.monotonic()
        await super().on_event(event)

    # Going places --------------------------------------------------------------------------------

    def go(self, place: Place) -> None:
        """Open a place on top of where one is; a part of the recording that is damaged is said."""
        from qnndbg.tui.open import page_for

        try:
            page = page_for(self, place)
        except QnndbgError as error:
            self.say(error.fact, bad=True)
            return
        if isinstance(place, PageAt):
            self._root(page, home=place.name == self.home)
        else:
            self.push_screen(page)

    def _root(self, page: Page, *, home: bool) -> None:
        """Make a page the only one above the first."""
        while len(self.screen_stack) > 2:
            self.pop_screen()
        if len(self.screen_stack) == 1 or not home:
            self.push_screen(page)

    def cross(self, place: Place | None) -> None:
        """Go to the same place in the other recording."""
        if self.both is None or place is None:
            self.say("this page has no counterpart", bad=True)
            return
        there = self.both.partner(self.session, place)
        if there is None:
            self.say("the other recording does not have it", bad=True)
            return
        self.session = self.both.other(self.session)
        self.go(there)

    def back(self) -> None:
        """To the page before; the overview is the last."""
        if len(self.screen_stack) > 2:
            self.pop_screen()

    def action_main(self, name: str) -> None:
        """Go to one of the main pages."""
        self.go(PageAt(name))

    def action_help(self) -> None:
        """Show the keys."""
        about = inspect.cleandoc(type(self.screen).__doc__ or "")
        self.push_screen(Help(self.screen, about))

    def action_next_theme(self) -> None:
        """Use the next theme."""
        names = sorted(self.available_themes)
        self.theme = names[(names.index(self.theme) + 1) % len(names)]
        self.say(f"theme {self.theme}")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is a difference where there are two recordings."""
        return (action, parameters) != ("main", ("diff",)) or self.both is not None

    # Telling and taking --------------------------------------------------------------------------

    def say(self, text: str, *, bad: bool = False) -> None:
        """Tell something that needs no answer."""
        self.notify(text, severity="warning" if bad else "information", timeout=4, markup=False)

    def browse(self, session: Session, place: Place | None) -> None:
        """Open the HTML report at a place; in a thread, since that of a large recording takes seconds."""
        self.say("writing the HTML report …")
        self.run_worker(lambda: self._browse(session, place), thread=True, exclusive=True, group="browse")

    def _browse(self, session: Session, place: Place | None) -> None:
        from qnndbg.tui import browser

        try:
            path = session.report or browser.write(session.recording)
        except QnndbgError as error:
            self.call_from_thread(self.say, error.fact, bad=True)
            return
        session.report = path
        url = path.as_uri() + (f"#{found}" if (found := browser.anchor(session, place)) else "")
        if browser.has_display(os.environ) and browser.launch(url):
            self.call_from_thread(self.say, f"opened {path}")
        else:
            self.call_from_thread(self._offer, url)

    def _offer(self, url: str) -> None:
        """Say where the report is, where no browser can be opened."""
        self.copy_to_clipboard(url)
        text = f"no browser can be opened here; the report, whose address is copied:\n{url}"
        self.notify(text, timeout=30, markup=False)

    def copy(self, text: str, what: str) -> None:
        """Copy to the clipboard of the terminal, which works over SSH where the terminal allows it."""
        self.copy_to_clipboard(text)
        self.say(f"copied {what}: {len(text)} characters")


def _both(a: Session, b: Session) -> Both:
    from qnndbg.tui.both import Both

    return Both(a, b)


def run(recording: Recording, source: Path = Path(), other: Recording | None = None) -> bool:
    """Show a recording, or how two differ, until the user leaves; False if it ended by a bug of ours."""
    app = QnndbgApp(recording, source, other)
    app.run()
    return not app.return_code

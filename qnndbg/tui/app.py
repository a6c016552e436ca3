"""The application: which page is on top, how one gets from one to another, and what works on all of them."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.events import Event, Key, MouseDown, MouseEvent
from textual.worker import WorkerFailed, get_current_worker

from qnndbg.errors import QnndbgError
from qnndbg.recording.store import Recording, open_recording
from qnndbg.report.units import CONTROLS
from qnndbg.tui.keys import Help
from qnndbg.tui.page import Page
from qnndbg.tui.places import PageAt, Place
from qnndbg.tui.state import Session
from qnndbg.tui.trail import Trail

if TYPE_CHECKING:
    from qnndbg.tui.both import Both
    from qnndbg.tui.jobs import Job


def _commands() -> type[Provider]:
    from qnndbg.tui.palette import Commands

    return Commands


def _places() -> type[Provider]:
    from qnndbg.tui.palette import Places

    return Places


POLL = 0.25
"""Seconds between two looks at a job."""
OPENING = 0.03
"""Seconds in which a page is made before it is drawn: drawn in parts, it takes twice as long."""
HANG_UP = 2.0
"""Seconds between two looks at the terminal."""
EXIT_HUNG_UP = 128 + 1
"""What a shell says of a process that the end of its terminal ended."""
PAGES = ("layers", "passes", "graph", "layer", "tensor", "findings", "log")
"""Modules of pages; not loaded at the start, which they would delay."""
ONE = "there is one recording; qnndbg tui A B shows what differs"
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
        Binding("7", "main('jobs')", "Jobs", show=False),
        Binding("L", "main('log')", "Worker log", show=False),
        Binding("R", "job('record')", "Record again", show=False),
        Binding("B", "job('bisect')", "Search the pass in which an output is lost", show=False),
        Binding("question_mark", "help", "Help"),
        Binding("ctrl+p,colon", "command_palette", "Commands", show=False),
        Binding("T", "next_theme", "Next theme", show=False),
        Binding("q", "quit", "Quit"),
    ]
    CSS = "Screen { layers: base; }"
    COMMANDS = App.COMMANDS | {_commands, _places}

    def __init__(self, recording: Recording, source: Path = Path(), other: Recording | None = None) -> None:
        super().__init__()
        self.session = Session(recording)
        self.source = source
        self.both = None if other is None else _both(self.session, Session(other))
        self.home = "overview" if self.both is None else "diff"
        self.trail = Trail(self)
        self.told: Text | None = None
        """What was said last, until a key is pressed."""
        self.jobs: list[Job] = []
        self.leaving = False
        """Whether the user was told that a job still runs."""
        self.failure: QnndbgError | None = None
        """What ended it."""

    def on_mount(self) -> None:
        """Begin with the answer."""
        self.animation_level = "none"
        self.go(PageAt(self.home))
        self.set_interval(POLL, self._poll)
        if not self.is_headless and not self.is_web:
            self.set_interval(HANG_UP, self._leave_without_terminal)
            loop = asyncio.get_running_loop()
            for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
                loop.add_signal_handler(signum, self._end, signum)
            signal.signal(signal.SIGHUP, lambda signum, _frame: self._hung_up(signum, loop))
        self.session.touched = time.monotonic()
        self.run_worker(self._prepare, thread=True, group="prepare")

    def _leave_without_terminal(self) -> None:
        """End with the terminal, also where the signal of its end is ignored, as under nohup."""
        if not os.isatty(sys.__stdin__.fileno() if sys.__stdin__ is not None else 0):
            self._cancel()
            os._exit(EXIT_HUNG_UP)

    def _hung_up(self, signum: int, loop: asyncio.AbstractEventLoop) -> None:
        """Leave at once without a terminal: the signal to continue that follows would start Textual anew."""
        self._leave_without_terminal()
        loop.call_soon_threadsafe(self._end, signum)

    def _end(self, signum: int) -> None:
        """Leave the terminal as it was, and no job behind."""
        self._cancel()
        self.exit(return_code=128 + signum)

    def _cancel(self) -> None:
        if self.running is not None:
            self.running.cancel()

    def _handle_exception(self, error: Exception) -> None:
        """End with the words of the error where a part of the recording turns out to be damaged."""
        cause = error.error if isinstance(error, WorkerFailed) else error
        if isinstance(cause, QnndbgError):
            self.failure = self.failure or cause
            self._return_code = cause.exit_code
            self._close_messages_no_wait()  # as Textual itself ends where something was raised
        else:
            super()._handle_exception(error)

    def _prepare(self) -> None:
        """Load, while the first page is read, what the others need, so that a first visit is no slower."""
        worker = get_current_worker()
        for _ in self._pieces():
            if worker.is_cancelled:
                return
            self.session.wait_for_rest(short=True)

    def _pieces(self) -> Iterator[None]:
        for name in PAGES:
            yield
            import_module(f"qnndbg.tui.{name}")
        from qnndbg.tui.columns import widths
        from qnndbg.tui.pass_list import count_nodes

        yield from self.session.prepare()
        yield
        widths(self.session)
        yield from count_nodes(self.session)

    async def on_event(self, event: Event) -> None:
        """Note when a key is pressed, so that work behind the screen can wait."""
        if isinstance(event, (Key, MouseEvent)):
            self.session.touched = time.monotonic()
        if self.told is not None and isinstance(event, (Key, MouseDown)):
            self.told = None
            self._show_told()
        await super().on_event(event)

    # Going places --------------------------------------------------------------------------------

    def go(self, place: Place) -> None:
        """Open a place on top of where one is; a part of the recording that is damaged is said."""
        from qnndbg.tui.open import page_for

        kept = self.trail.find(self.session, place) if isinstance(place, PageAt) else None
        if kept is not None and kept is self.screen:
            self.say(f"this is {kept.label} already")
            return
        try:
            page = kept or page_for(self, place)
        except QnndbgError as error:
            self.say(error.fact, bad=True)
            return
        self.delay_update(OPENING)
        if isinstance(place, PageAt):
            self.trail.to_main(self.session, place, page)
        else:
            self.push_screen(page)

    @property
    def first(self) -> Page | None:
        """The first page; None while it is made."""
        return self.trail.find(self.session, PageAt(self.home))

    def cross(self, place: Place | None) -> None:
        """Go to the same place in the other recording."""
        if self.both is None or place is None:
            self.say(ONE if self.both is None else "this page has no counterpart", bad=True)
            return
        there = self.both.partner(self.session, place)
        if there is None:
            self.say("the other recording does not have it", bad=True)
            return
        line = self.screen.sheet.line if isinstance(self.screen, Page) else None
        row = None if line is None or line.place is None else self.both.partner(self.session, line.place)
        self.session = self.both.other(self.session)
        self.go(there)
        if row is not None and isinstance(self.screen, Page):
            self.screen.stand_on(row)

    def back(self) -> None:
        """To the page before; the overview is the last."""
        if not self.trail.back(self.first):
            self.say("this is the first page; q leaves")

    def action_main(self, name: str) -> None:
        """Go to one of the main pages."""
        if name == "diff" and self.both is None:
            self.say(ONE)
            return
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

    def offers(self, action: str) -> bool:
        """There is a difference where there are two recordings, and jobs once one was started."""
        return {"main('diff')": self.both is not None, "main('jobs')": bool(self.jobs)}.get(action, True)

    # Long jobs -----------------------------------------------------------------------------------

    def action_job(self, verb: str) -> None:
        """Ask for the arguments of a command that takes a while, filled in for what is looked at."""
        if isinstance(self.screen, Page):
            from qnndbg.tui import job_words

            self.screen.ask(f"qnndbg {verb}", job_words.words(verb, self.session, self.screen, self.source))

    def start(self, verb: str, text: str) -> None:
        """Start such a command, and show how far it is."""
        from qnndbg.tui import job_words
        from qnndbg.tui.jobs import Job

        try:
            job = Job(job_words.command(verb, text, self.session), self.session)
        except QnndbgError as error:
            self.say(error.fact, bad=True)
            return
        if self.running:
            self.say(f"{self.running.brief}; it must end first, and 7 shows it", bad=True)
            return
        job.start()
        self.jobs.append(job)
        self.go(PageAt("jobs"))

    @property
    def running(self) -> Job | None:
        """The job that runs, if one does."""
        return next((job for job in self.jobs if job.running), None)

    def _poll(self) -> None:
        """Look how far the job is, and tell when it has ended."""
        job = self.running
        if job is None:
            return
        news = job.poll()
        page = self.screen
        if isinstance(page, Page) and (news or int(job.seconds) != int(job.seconds - POLL)):
            page.show_where()
            page.job_moved()
        if job.running:
            return
        if job.state == "done" and job.left is not None and page is self._jobs_page():
            self.open_left(job)
        elif page is not self._jobs_page():
            self.say(f"{job.words[0]} {job.state}; 7 shows what came of it", bad=job.state == "failed")

    def _jobs_page(self) -> Page | None:
        page = self.screen
        return page if isinstance(page, Page) and page.label == "Jobs" else None

    def open_left(self, job: Job) -> None:
        """Look at the recording that a job left, beside the one that it was started from."""
        assert job.left is not None
        try:
            made = Session(open_recording(job.left))
        except QnndbgError as error:
            self.say(error.fact, bad=True)
            return
        self.both = _both(job.session, made)
        self.session, self.home = made, "overview"
        self.trail.forget()
        self.go(PageAt("overview"))
        self.say(f"this is {made.name}; 6 shows what differs from {job.session.name}, b goes there")

    async def action_quit(self) -> None:
        """Leave; a job that runs is cancelled, but not before this was said."""
        if self.running is not None and not self.leaving:
            self.leaving = True
            self.say(f"{self.running.brief}; q again cancels it and leaves", bad=True)
            return
        self._cancel()
        await super().action_quit()

    # Telling and taking --------------------------------------------------------------------------

    def say(self, text: str, *, bad: bool = False) -> None:
        """Tell something that needs no answer: in the line below the body, until the next key."""
        self.told = Text(f" {text.translate(CONTROLS)}", "warn" if bad else "strong")
        self._show_told()

    def _show_told(self) -> None:
        for page in self.screen_stack[-1:]:
            if isinstance(page, Page):
                page.show_status()

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
        self.say(f"no browser can be opened here; the report, whose address is copied: {url}")

    def copy(self, text: str, what: str) -> None:
        """Copy to the clipboard of the terminal, which works over SSH where the terminal allows it."""
        self.copy_to_clipboard(text)
        self.say(f"copied {what}: {len(text)} characters")


def _both(a: Session, b: Session) -> Both:
    from qnndbg.tui.both import Both

    return Both(a, b)


def run(recording: Recording, source: Path = Path(), other: Recording | None = None) -> int:
    """Show a recording, or how two differ, until the user leaves: 0, 1 for a bug, or 128 and a signal.

    Raises:
        RecordingError: a part that was looked at is damaged.
    """
    app = QnndbgApp(recording, source, other)
    app.run()
    if app.failure is not None:
        raise app.failure
    return app.return_code or 0

"""The page of long jobs: how far each is, what it said, and the way to what it left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget

from qnndbg.report import units
from qnndbg.tui.jobs import Job
from qnndbg.tui.page import Page, blank
from qnndbg.tui.places import PassAt
from qnndbg.tui.sheet import Content, Line, Lines, Sheet
from qnndbg.tui.state import Session
from qnndbg.tui.words import wrapped

SIGNS = {
    "running": ("◌", "link"),
    "cancelling": ("◌", "warn"),
    "cancelled": (units.BROKEN, "warn"),
    "done": (units.SOUND, "good"),
    "failed": (units.BROKEN, "bad"),
}
"""By the state of a job."""


class JobPage(Page):
    """What was started from here and takes a while: recordings and searches, the last one first.

    They go on while you look at other pages. Cancelled once, a job is interrupted and keeps what it has;
    cancelled twice, it is ended at once.
    """

    label = "Jobs"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("X", "cancel", "Cancel")]

    def __init__(self, session: Session, jobs: Sequence[Job]) -> None:
        super().__init__(session)
        self.jobs = jobs

    def body(self) -> Sequence[Widget]:
        """One sheet."""
        return (Sheet(self._lines, id="jobs"),)

    def on_screen_resume(self) -> None:
        """Show what was started meanwhile, the last one first."""
        for sheet in self.query(Sheet):
            sheet.rebuild(0)

    def job_moved(self) -> None:
        """Show how far they are now; the cursor stays."""
        self.query_one("#jobs", Sheet).rebuild()
        self.refresh_bindings()

    def _lines(self, width: int) -> Content:
        lines: list[Line] = []
        for job in reversed(self.jobs):
            lines += [blank(), *_job(job, width)] if lines else _job(job, width)
        why = "  no job; R records again, B searches the pass in which an output is lost"
        return Lines(lines or [Line(Text(why, "faint"), stop=False)])

    def job(self) -> Job | None:
        """The one under the cursor."""
        line = self.sheet.line
        return line.data if line is not None and isinstance(line.data, Job) else None

    def status(self) -> Text:
        """What can be done with it."""
        job = self.job()
        if job is None:
            return Text()
        if job.running:
            again = "ends it at once" if job.state == "cancelling" else "cancels it"
            return Text(f" {job.brief} · X {again}", "faint")
        return Text(" Enter opens what it left" if job.left else "", "faint")

    def offers(self, action: str) -> bool:
        """What has ended cannot be cancelled."""
        return any(job.running for job in self.jobs) if action == "cancel" else super().offers(action)

    def action_cancel(self) -> None:
        """Cancel the job that runs."""
        if not any(job.running for job in self.jobs):
            self.shell.say("no job runs")
            return
        for job in self.jobs:
            job.cancel()
        self.job_moved()

    def opened(self, _sheet: Sheet, line: Line) -> None:
        """Open the recording that a job left, or the pass of a graph that was run."""
        job = line.data
        if not isinstance(job, Job):
            return
        if line.place is not None:
            self.shell.session = job.session
            self.shell.go(line.place)
        elif job.left is None:
            self.shell.say("it left nothing to open" if not job.running else f"{job.brief}; X cancels it")
        else:
            self.shell.open_left(job)


def _job(job: Job, width: int) -> Iterator[Line]:
    sign, style = SIGNS[job.state]
    state = f"failed, exit code {job.exit_code}" if job.state == "failed" else job.state
    head = Text.assemble(
        (f"{sign} ", style), (f"{state} ", style), (f"{_seconds(job.seconds).strip()}  ", "faint")
    )
    command = wrapped(job.command, width - head.cell_len)
    for number, part in enumerate(command):
        indent = head if not number else Text(" " * head.cell_len)
        yield Line(Text.assemble(indent, (part, "title")), data=job, stop=not number)
    for step in job.steps:
        mark = SIGNS["done" if step.ended is not None and not _broke(job, step) else job.state]
        passes = f"  {step.passes} passes" if step.passes else ""
        text = Text.assemble(
            "  ",
            (f"{mark[0]} ", mark[1]),
            (f"{_seconds(step.seconds)}  ", "faint"),
            step.text,
            (passes, "faint"),
        )
        yield Line(text, data=job)
    yield from _probes(job)
    for said in job.said:
        style = "bad" if said.startswith("qnndbg: error:") else "strong" if said.startswith("hint:") else ""
        for part in wrapped(said, width - 2) if len(said) > width - 2 else [said]:
            yield Line(Text(f"  {part}", style), data=job)
    if job.left is not None:
        yield Line(Text(f"  → {_short(job.left)}", "link"), data=job)


def _broke(job: Job, step: object) -> bool:
    """Whether it is the step in which a job ended badly."""
    return job.state in {"failed", "cancelled"} and step is job.steps[-1]


def _probes(job: Job) -> Iterator[Line]:
    for probe in sorted(job.probes, key=lambda p: p["position"]):
        part = "" if probe["partition"] is None else f" #{probe['partition']}"
        name = probe["name"] or "(as it begins)"
        here = probe["position"] == job.found
        text = Text.assemble(
            (f"  {probe['sqnr_db']:7.1f} dB  ", "made" if here else "bar"),
            f"{probe['stage']}{part} ",
            (name, "strong"),
            ("  ◄ the first that is wrong" if here else "", "made"),
        )
        yield Line(text, PassAt(probe["position"]), job)
    if job.probes and job.running:
        left = job.probes[-1]["left"]
        yield Line(Text(f"  ◌ at most {left} more graphs to run", "faint"), stop=False)


def _seconds(seconds: float) -> str:
    return f"{seconds:5.1f} s" if seconds < 100 else f"{int(seconds) // 60:4}:{int(seconds) % 60:02}"


def _short(path: Path) -> str:
    """A path as seen from the current folder, if it lies below it."""
    here = Path.cwd()
    full = path.absolute()
    return str(full.relative_to(here)) if full.is_relative_to(here) else str(path)

"""Commands of qnndbg that take a while, run beside the screen: how far they are, and what they left.

Each is a process of its own, since the terminal UI loads nothing of torch. What it says goes to a file
without a name, so that neither a full pipe nor the end of the terminal UI stops it. Knows no screen.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from qnndbg.tui.state import Session

State = Literal["running", "cancelling", "cancelled", "done", "failed"]
SAID = 400
"""Lines of text that are kept of a job."""
WIDTH = "100"
"""Columns of the reports that a job prints."""
INTERRUPTED = 130
CAPTURED = "what was captured: qnndbg show "
"""What stands in a hint before the recording of a failure."""


@dataclass(slots=True)
class Step:
    """A step of a job."""

    text: str
    began: float
    ended: float | None = None
    passes: int = 0

    @property
    def seconds(self) -> float:
        """How long it took, or takes already."""
        return (time.monotonic() if self.ended is None else self.ended) - self.began


@dataclass(slots=True)
class Job:
    """A command that runs, or has run."""

    words: tuple[str, ...]
    """The verb and its arguments."""
    session: Session
    """Of the recording that was looked at."""
    state: State = "running"
    exit_code: int | None = None
    steps: list[Step] = field(default_factory=list)
    probes: list[dict[str, Any]] = field(default_factory=list)
    """Graphs that a search has run; ``left`` more are to come at most."""
    found: int | None = None
    """The position of the pass event that a search ended at."""
    said: list[str] = field(default_factory=list)
    wrote: list[Path] = field(default_factory=list)
    """Recordings that it left."""
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    _process: subprocess.Popen[bytes] | None = None
    _log: Any = None
    _read: int = 0
    _rest: bytes = b""

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self.state in {"running", "cancelling"}

    @property
    def command(self) -> str:
        """As one would type it."""
        return f"qnndbg {shlex.join(self.words)}"

    @property
    def seconds(self) -> float:
        """How long it took, or takes already."""
        return (time.monotonic() if self.ended is None else self.ended) - self.began

    @property
    def left(self) -> Path | None:
        """The recording that it left; of several, the first."""
        return next((folder for folder in self.wrote if folder.exists()), None)

    @property
    def brief(self) -> str:
        """Where it is, in few words."""
        verb = self.words[0]
        if self.state == "cancelling":
            return f"{verb}: being cancelled"
        if self.probes:
            return f"{verb}: {len(self.probes)} graphs run"
        step = self.steps[-1] if self.steps else None
        if step is None:
            return f"{verb}: starts"
        return f"{verb}: {step.text}" + (f", {step.passes} passes" if step.passes else "")

    def start(self) -> None:
        """Run it."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "qnndbg", *self.words],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "QNNDBG_PROGRESS": "json", "COLUMNS": WIDTH, "NO_COLOR": "1"},
            start_new_session=True,  # a group of its own, that is interrupted like one in a terminal
        )

    def cancel(self) -> None:
        """Interrupt it, so that it keeps what it has; the second time, end it at once."""
        if self._process is not None and self.running and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT if self.state == "running" else signal.SIGKILL)
            self.state = "cancelling"

    def poll(self) -> bool:
        """Read what it said meanwhile, and whether it has ended; whether anything is new."""
        if self._process is None or not self.running:
            return False
        code = self._process.poll()  # before the reading, so that nothing said before the end is missed
        new = os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size - self._read, self._read)
        self._read += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        if code is not None:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            self._take(line.decode(errors="replace").rstrip())
        if code is not None:
            self._end(code)
        return bool(new) or code is not None

    def _take(self, line: str) -> None:
        event = _event(line)
        now = time.monotonic()
        if event is None:
            if CAPTURED in line:
                self.wrote += map(Path, shlex.split(line.partition(CAPTURED)[2])[:1])
            self.said = [*self.said, line][-SAID:] if line or self.said else self.said
        elif "step" in event:
            self._close(now)
            self.steps.append(Step(str(event["text"]), now))
        elif "pass" in event and self.steps:
            self.steps[-1].passes += 1
        elif "probe" in event:
            self.probes.append({**event["probe"], "left": event["left"]})
        elif "found" in event:
            self.found = event["found"]["position"]
        elif "wrote" in event:
            self.wrote.append(Path(event["wrote"]))

    def _close(self, now: float) -> None:
        if self.steps and self.steps[-1].ended is None:
            self.steps[-1].ended = now

    def _end(self, code: int) -> None:
        self.exit_code, self.ended = code, time.monotonic()
        self._close(self.ended)
        stopped = self.state == "cancelling" and code in {INTERRUPTED, -signal.SIGINT, -signal.SIGKILL}
        self.state = "cancelled" if stopped else "done" if code == 0 else "failed"
        self._log.close()


def _event(line: str) -> dict[str, Any] | None:
    """A line of progress, or None for a text."""
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
    except json.JSONDecodeError:
        return None
    known = {"step", "pass", "probe", "found", "wrote"}
    return found if isinstance(found, dict) and known & found.keys() else None

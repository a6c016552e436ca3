"""The log of the process that lowered: what ExecuTorch, QNN and the script wrote; opens at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text
from textual.widget import Widget

from qnndbg.errors import UsageError
from qnndbg.tui.page import Page
from qnndbg.tui.places import PageAt, Place
from qnndbg.tui.sheet import Content, Line, Lines, Sheet
from qnndbg.tui.state import Session

LOG = "logs/worker.log"
KEPT = 2_000_000
"""Bytes that are shown of a longer one: its end, where what failed stands."""
BAD = ("error", "fail", "exception", "missing")


class Log(Page):
    """What was written while the recording was made: by ExecuTorch, by QNN, and by the target itself."""

    label = "Worker log"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        path = session.recording.folder / LOG
        if not path.is_file():
            raise UsageError(f"the recording holds no {LOG}")
        text = path.read_bytes()[-KEPT:].decode(errors="replace")
        self.stood = False
        """Whether the cursor was put to the end."""
        self.written = text.rstrip().splitlines()

    def body(self) -> Sequence[Widget]:
        """One sheet."""
        return (Sheet(self._lines, id="log"),)

    def moved(self, sheet: Sheet) -> None:
        """Begin at the end."""
        if not self.stood and len(sheet.content):
            self.stood = True
            sheet.action_end(1)

    def _lines(self, width: int) -> Content:
        return Lines([part for line in self.written for part in _folded(line, width)])

    def here(self) -> Place:
        """The log."""
        return PageAt("log")

    def status(self) -> Text:
        """How long it is."""
        return Text(f" {LOG}: {len(self.written)} lines")


def _folded(line: str, width: int) -> Iterator[Line]:
    """A line of the log in as many lines as it takes."""
    style = "bad" if any(word in line.lower() for word in BAD) else ""
    for at in range(0, max(len(line), 1), width):
        yield Line(Text(line[at : at + width], style), data=line)

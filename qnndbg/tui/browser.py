"""The HTML report of what is looked at, in a browser: where in the page it is, and whether one can be opened.

Owns the files that it writes, which stay when the user leaves, since the browser may read them later.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from qnndbg.recording.store import Recording
from qnndbg.report.formats import REPORTS
from qnndbg.tui.places import FindingAt, GraphAt, LayerAt, NodeAt, OutputAt, PageAt, PassAt, Place, TensorAt
from qnndbg.tui.state import Session

SECTIONS = {"passes": "passes", "layers": "layers", "graph": "graphs", "findings": "findings"}
"""A main page, and the section of the report that shows the same."""
PATIENCE = 15.0
"""Seconds that a browser may take to say that it was started."""
OPEN = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"


def anchor(session: Session, place: Place | None) -> str:
    """Where in the report a place is; empty for the top."""
    if isinstance(place, NodeAt):
        place = session.named.get(place.name, place)
    elif isinstance(place, TensorAt):
        place = place.layer
    match place:
        case LayerAt() if place in session.numbers:
            return f"layer-{session.numbers[place] - 1}"
        case PageAt(name=name):
            return SECTIONS.get(name, "")
        case PassAt():
            return "passes"
        case FindingAt():
            return "findings"
        case GraphAt() | NodeAt():
            return "graphs"
        case OutputAt():
            return "ladder"
        case _:
            return ""


def write(recording: Recording) -> Path:
    """Write the report to a new folder for temporary files.

    Raises:
        RecordingError: the recording is damaged so badly that there is nothing to report.
    """
    text = REPORTS["html"](recording, None)
    path = Path(tempfile.mkdtemp(prefix="qnndbg-")) / f"{recording.folder.stem}.html"
    path.write_text(text, encoding="utf-8")
    return path


def has_display(environment: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether a browser that is started here can be seen by the user."""
    if environment.get("BROWSER"):  # set by whoever knows, such as an editor that forwards over SSH
        return True
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        return False
    if platform in {"darwin", "win32"}:
        return True
    return bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def launch(url: str) -> bool:
    """Open a browser; whether one could be started.

    In a process of its own without a terminal, on which a browser that draws text would draw over the screen.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", OPEN, url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:  # a browser that stays in the foreground is open
        return True
    return done.returncode == 0

"""A terminal that goes away, as when a connection is lost, takes the terminal UI with it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

SECONDS = 60.0


def test_it_ends_with_its_terminal_though_no_signal_says_so(folder: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "qnndbg", "tui", str(folder)]
    # In a session of its own the terminal is not the one that controls it, so that there is no SIGHUP.
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    shown = b""
    while b"\x1b[?1049h" not in shown:  # it has taken the screen over
        shown += os.read(ours, 4096)
    os.close(ours)
    try:
        assert process.wait(SECONDS) == 129
    finally:
        process.kill()

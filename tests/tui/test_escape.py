"""Esc takes effect once the rest of another key could have come, not at a beat of Textual's own."""

from __future__ import annotations

import os
import pty
import select
import selectors
import statistics
import sys
import time
from pathlib import Path

import pytest

from qnndbg.tui.escape import Soon

TIMES = 5


def test_it_looks_as_often_as_the_delay_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("textual.constants.ESCAPE_DELAY", 0.01)
    ours, theirs = os.pipe()
    selector = Soon()
    selector.register(ours, selectors.EVENT_READ)
    begin = time.monotonic()
    assert selector.select(60.0) == []
    assert time.monotonic() - begin < 30.0
    os.write(theirs, b"x")
    assert [key.fd for key, _ in selector.select(60.0)] == [ours]


@pytest.mark.parametrize(("said", "least", "most"), [(None, 0.025, 0.2), ("400", 0.4, 5.0)])
def test_esc_waits_as_long_as_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, least: float, most: float
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("ESCDELAY", raising=False)
    if said is not None:
        monkeypatch.setenv("ESCDELAY", said)
    pid, fd = pty.fork()
    if not pid:
        os.execv(sys.executable, [sys.executable, "-m", "qnndbg", "tui", str(folder)])
    _until(fd, "Ladder")
    times = []
    for _ in range(TIMES):
        os.write(fd, b"?")
        _until(fd, "Esc closes")
        _quiet(fd)
        begin = time.monotonic()
        os.write(fd, b"\x1b")
        os.read(fd, 1 << 16)
        times.append(time.monotonic() - begin)
        _quiet(fd)
    os.write(fd, b"q")
    _until(fd, "\x1b[?1049l")
    os.close(fd)
    os.waitpid(pid, 0)
    assert min(times) >= least
    assert statistics.median(times) < most


def _until(fd: int, text: str) -> None:
    seen = ""
    while text not in seen:
        seen += os.read(fd, 1 << 16).decode(errors="replace")


def _quiet(fd: int) -> None:
    while select.select([fd], [], [], 0.3)[0]:
        os.read(fd, 1 << 16)

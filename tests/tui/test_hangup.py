"""What ends the terminal UI from outside takes its jobs with it, and leaves the terminal as it was."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SECONDS = 60.0
TAKEN, GIVEN_BACK = b"\x1b[?1049h", b"\x1b[?1049l"
"""The alternate screen, of xterm."""
SLOW = """
import time
def make():
    print("here", flush=True)
    time.sleep(300)
"""


def start(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """The UI over a recording, once it has taken the screen over, and our end of its terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "qnndbg", "tui", str(folder)]
    # In a session of its own the terminal is not the one that controls it, so that there is no SIGHUP.
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    shown = b""
    while TAKEN not in shown:
        shown += os.read(ours, 4096)
    return process, ours


def test_it_ends_with_its_terminal_though_no_signal_says_so(folder: Path) -> None:
    process, ours = start(folder)
    os.close(ours)
    try:
        assert process.wait(SECONDS) == 129
    finally:
        process.kill()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT])
def test_a_signal_gives_the_screen_back(folder: Path, signum: signal.Signals) -> None:
    process, ours = start(folder)
    time.sleep(0.5)  # it is told of signals with the first page
    process.send_signal(signum)
    shown = b""
    try:
        while GIVEN_BACK not in shown:
            shown += os.read(ours, 4096)
        assert process.wait(SECONDS) == 128 + signum
    finally:
        process.kill()
        os.close(ours)


def test_a_job_ends_with_what_started_it_however_that_ends(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    starter = (
        "import subprocess, sys, time\n"
        "job = subprocess.Popen([sys.executable, '-m', 'qnndbg', 'record', 'slow.py:make'],"
        " start_new_session=True)\n"
        "print(job.pid, flush=True)\n"
        "time.sleep(300)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", starter],
        cwd=tmp_path,
        env={**os.environ, "QNNDBG_PROGRESS": "json"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        job = Path(f"/proc/{int(started.stdout.readline())}")
        started.stderr.readline()  # its first progress
        started.kill()
        started.wait(SECONDS)
        end = time.monotonic() + SECONDS
        while job.exists() and time.monotonic() < end:
            time.sleep(0.1)
        assert not job.exists()


def test_damage_that_leaves_nothing_to_show_ends_in_words(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy.qnndbg"))
    (copy / "comparison.json").write_text("{")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "qnndbg", "tui", str(copy)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE) as process:
        os.close(theirs)
        try:
            _, said = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
    os.close(ours)
    assert process.returncode == 3
    assert b"hint: " in said
    assert b"Traceback" not in said


def test_what_follows_a_search_at_once_is_typed_and_no_key(folder: Path) -> None:
    process, ours = start(folder)
    os.set_blocking(ours, False)
    try:
        for keys in (b"3", b"/qqq", b"\r"):
            end = time.monotonic() + 1.0
            while time.monotonic() < end:  # read what it draws, or it waits for us
                with contextlib.suppress(BlockingIOError):
                    os.read(ours, 65536)
                time.sleep(0.01)
            os.write(ours, keys)
        time.sleep(0.5)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait(SECONDS)
        os.close(ours)

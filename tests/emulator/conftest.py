"""Recordings that tests share, each made once in a session, and the command line as a user has it."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from qnndbg.pipeline.record import Request, record
from qnndbg.recording.place import SUFFIX
from qnndbg.recording.store import Recording, open_recording

ROOT = Path(__file__).parents[2]
NETS = Path(__file__).with_name("nets.py")
SCRIPTS = Path(__file__).with_name("scripts")

Recorded = Callable[[str, str], Recording]
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this session have in common."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def recorded(shared: Path) -> Recorded:
    """Record a factory of nets.py, or any other target, at a precision; the second time, open it."""

    def make(target: str, precision: str) -> Recording:
        if ":" not in target:
            target = f"{NETS}:{target}"
        name = re.sub(r"\W", "_", target.rpartition("/")[2])
        folder = shared / f"{name}-{precision}{SUFFIX}"
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of two processes that want it, one makes it
            if folder.exists() and (made := open_recording(folder)).manifest.complete:
                return made
            return record(Request(target=target, precision=precision, output=folder), lambda _event: None)

    return make


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Call ``qnndbg`` in a process of its own and an empty folder."""

    def call(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "qnndbg", *args],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **env},
            capture_output=True,
            text=True,
            check=False,
        )

    return call

"""Owns worker processes: a job runs in one, and a native crash there is an error here.

It refuses anything that JSON cannot carry: tensors go through files. A worker does one job, because
lowering leaks memory and a crash leaves nothing to reuse.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from qnndbg import errors
from qnndbg.errors import QnndbgError, WorkerCrashedError
from qnndbg.execute.native_log import known_remedy, last_words

GRACE = 10.0
"""Seconds that a worker has to end once it has answered; native teardown sometimes hangs."""

Event = dict[str, object]


def run_job(
    function: str,
    payload: Mapping[str, object],
    *,
    log: Path,
    on_event: Callable[[Event], None] | None = None,
    env: Mapping[str, str] | None = None,
    terminal: bool = False,
) -> object:
    """Run ``function(payload, report)`` in a worker process and return its result.

    ``report(event)`` may be called there at any time; the ``step`` of the last event is named if the
    worker dies. The worker has this process's import path, behind the current directory. It ends, with
    all that it started, before this returns or raises, and with this process if that is killed.

    Args:
        function: ``package.module:name``.
        payload: JSON data; so are events and the result, hence a tuple comes back as a list.
        log: the file to which the worker's stdout and stderr are appended, native output included.
        on_event: called here with each event.
        env: variables that the worker has beside this process's own.
        terminal: the worker's stdout and stderr are this process's own, and so is a stdin that is no
            terminal, which the worker's own session could not read; and it ends like any Python.

    Raises:
        QnndbgError: as the job raised it.
        UsageError: the code under test called sys.exit.
        WorkerFailedError: the job raised anything else; its traceback is in the log.
        WorkerCrashedError: the worker died without an answer.
    """
    job = json.dumps(
        {"function": function, "payload": payload, "path": sys.path, "terminal": terminal}
    ).encode()
    log.parent.mkdir(parents=True, exist_ok=True)
    start = log.stat().st_size if log.exists() else 0
    with _worker(job, log, env, terminal=terminal) as (process, messages):
        answer, step = _follow(messages, on_event)
    if "result" in answer:
        return answer["result"]
    if "error" in answer:
        raise _error_from_answer(answer["error"], log, start)
    raise _crash(process.returncode, step, log, start)


@contextmanager
def _worker(
    job: bytes, log: Path, env: Mapping[str, str] | None, *, terminal: bool
) -> Iterator[tuple[subprocess.Popen[bytes], BinaryIO]]:
    """Start a worker; on leaving, let it end by itself after an answer, and by force otherwise."""
    read, write = os.pipe()
    command = [sys.executable, "-u", "-X", "faulthandler", "-m", "qnndbg.execute.child"]
    with (
        open(read, "rb") as messages,  # noqa: PTH123  a descriptor has no path
        log.open("ab") as sink,
        tempfile.TemporaryFile() as orders,
    ):
        orders.write(job)
        orders.seek(0)
        try:
            process = subprocess.Popen(
                [*command, str(orders.fileno()), str(write), str(os.getpid())],
                stdin=None if terminal and not _is_terminal(0) else subprocess.DEVNULL,
                stdout=None if terminal else sink,
                stderr=None if terminal else sink,
                pass_fds=(orders.fileno(), write),
                env={**os.environ, **(env or {})},
                start_new_session=True,  # Ctrl-C comes here first, and one signal reaches all it started
            )
        finally:
            os.close(write)
        reaper = threading.Thread(target=_reap, args=(process,), daemon=True)
        reaper.start()
        try:
            yield process, messages
            reaper.join(GRACE)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            reaper.join()


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Wait for the worker, then end what it left behind, which would hold the pipe open."""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # not reaped: its group stays valid
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _is_terminal(descriptor: int) -> bool:
    """Whether it is one, or is closed: neither can be handed to a worker."""
    try:
        os.fstat(descriptor)
    except OSError:
        return True
    return os.isatty(descriptor)


def _follow(messages: BinaryIO, on_event: Callable[[Event], None] | None) -> tuple[dict[str, object], str]:
    """Pass events on until the answer; without one, the worker died and the answer is empty."""
    step = ""
    for line in messages:
        if not line.endswith(b"\n"):  # it died while it wrote
            break
        message = json.loads(line)
        if "event" not in message:
            return message, step
        step = message["event"].get("step", step)
        if on_event is not None:
            on_event(message["event"])
    return {}, step


def _error_from_answer(error: object, log: Path, start: int) -> QnndbgError:
    assert isinstance(error, dict)
    cls: type[QnndbgError] = getattr(errors, error["class"])
    hint = known_remedy(log, start) or error["hint"]  # what fixes a known fault says more than any guess
    if not hint and cls is errors.WorkerFailedError:
        hint = f"the traceback is in {log}"
    return cls(error["fact"], hint)


def _crash(status: int, step: str, log: Path, start: int) -> WorkerCrashedError:
    how = f"was killed by {_signal(-status)}" if status < 0 else f"ended with status {status}"
    during = f" in step {step!r}" if step else ""
    words = last_words(log, start)
    fact = f"the worker process {how}{during}" + (f": {words}" if words else "")
    hint = known_remedy(log, start) or f"its output is in {log}"
    if status == -signal.SIGKILL:
        hint += "; memory may have run out"
    return WorkerCrashedError(fact, hint)


def _signal(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"

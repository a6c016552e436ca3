"""Owns what happens inside a worker process; :mod:`qnndbg.execute.worker` starts it and is its only user.

The job comes in as JSON in a file without a name, events and the answer go out as JSON lines on a pipe, so
that stdin is left to the code under test, and whatever that prints goes to the log with the native noise
and harms no message.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import BinaryIO

from qnndbg.errors import QnndbgError, UsageError, WorkerFailedError

PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>


def main() -> None:
    """Run the job. Arguments: the descriptors of its file and of the pipe, the parent's process id."""
    orders, pipe, parent = map(int, sys.argv[1:])
    del sys.argv[1:]  # the code under test may look for its own
    _die_with(parent)
    os.set_inheritable(pipe, False)
    with open(orders, "rb") as file:  # noqa: PTH123  a descriptor has no path
        job = json.load(file)
    sys.path.extend(entry for entry in job["path"] if entry not in sys.path)
    with open(pipe, "wb") as messages:  # noqa: PTH123  a descriptor has no path
        _answer(job, messages)
    sys.stdout.flush()
    sys.stderr.flush()
    if not job["terminal"]:  # a script may have handlers that are to run at the end
        os._exit(0)  # taking torch and the QNN libraries down costs seconds, and sometimes hangs


def _answer(job: dict[str, object], messages: BinaryIO) -> None:
    def send(kind: str, body: object) -> None:
        messages.write(json.dumps({kind: body}).encode() + b"\n")
        messages.flush()

    try:
        send("result", _resolve(str(job["function"]))(job["payload"], lambda event: send("event", event)))
    except BaseException as error:  # raised again: the interpreter writes the traceback to the log
        send("error", _failure(error))
        raise


def _resolve(function: str) -> Callable[[object, Callable[[object], None]], object]:
    module, _, name = function.partition(":")
    resolved: Callable[[object, Callable[[object], None]], object]
    resolved = getattr(importlib.import_module(module), name)
    return resolved


def _failure(error: BaseException) -> dict[str, str]:
    """Return the error as data, in the nearest class that :mod:`qnndbg.errors` has."""
    if isinstance(error, SystemExit):
        error = UsageError(
            f"the code under test ended its process: sys.exit({error.code!r})", "take that call out"
        )
    elif not isinstance(error, QnndbgError):
        message = str(error).strip().partition("\n")[0]  # torch explains at length
        error = WorkerFailedError(f"{type(error).__name__}: {message}".removesuffix(": "))
    known = next(cls for cls in type(error).__mro__ if cls.__module__ == QnndbgError.__module__)
    return {"class": known.__name__, "fact": error.fact, "hint": error.hint}


def _die_with(parent: int) -> None:
    """Have the kernel end this process with its parent: native code never looks at a pipe."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel knew
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()

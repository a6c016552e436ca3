"""Jobs for test_worker.py: each misbehaves in one way that real lowering does, or stays within the law."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from qnndbg.errors import LoweringError

Payload = Mapping[str, Any]
Report = Callable[[dict[str, object]], None]


class PrivateError(LoweringError):
    """A subclass that qnndbg.errors does not have."""


def echo(payload: Payload, report: Report) -> object:
    for step in payload.get("steps", ()):
        report({"step": step})
    return {"payload": payload, "pid": os.getpid(), "argv": sys.argv[1:], "cwd": str(Path.cwd())}


def environment(payload: Payload, report: Report) -> object:
    return os.environ.get(payload["name"])


def noisy(payload: Payload, report: Report) -> object:
    sys.stdout.write("from sys.stdout\n")
    os.write(1, b"from descriptor 1\n")
    os.write(2, b"from descriptor 2\n")
    subprocess.run(["echo", "from a process of its own"], check=True)
    return "quiet"


def flood(payload: Payload, report: Report) -> object:
    for _ in range(payload["lines"]):
        sys.stdout.write("x" * 99 + "\n")
        report({"padding": "y" * 99})
    return payload["lines"]


def abort(payload: Payload, report: Report) -> object:
    report({"step": "lower"})
    os.write(2, payload["words"].encode())
    os.abort()


def segfault(payload: Payload, report: Report) -> object:
    return ctypes.string_at(0)


def run_out_of_memory(payload: Payload, report: Report) -> object:
    os.kill(os.getpid(), 9)
    return None


def leave_at_once(payload: Payload, report: Report) -> object:
    os._exit(payload["status"])


def leave_with_a_child_that_holds_the_pipe(payload: Payload, report: Report) -> object:
    if os.fork() == 0:
        time.sleep(600)
    os._exit(7)


def leave_something_running(payload: Payload, report: Report) -> object:
    return subprocess.Popen(["sleep", "600"]).pid


def raise_private(payload: Payload, report: Report) -> object:
    raise PrivateError("aten.foo does not lower", payload["hint"])


def raise_unexpected(payload: Payload, report: Report) -> object:
    raise ValueError("not that\nand a page of advice")


def call_sys_exit(payload: Payload, report: Report) -> object:
    sys.exit(payload["code"])


def return_what_json_cannot_carry(payload: Payload, report: Report) -> object:
    return object()


def sleep(payload: Payload, report: Report) -> object:
    report({"pid": os.getpid()})
    time.sleep(600)
    return None

"""Records many small models quickly: each in a fork of one process with torch and QNN loaded.

A real recording starts a fresh process, whose imports take longer than lowering a small net. A fork is as
isolated: what crashes or leaks there costs one case.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qnndbg.execute import child, worker
from qnndbg.execute.sdk import activate, find_sdk
from qnndbg.pipeline import record


@contextmanager
def forked_jobs() -> Iterator[None]:
    """Inside, every recording of this process does its work in a fork of it."""
    activate(find_sdk(None))
    import qnndbg.pipeline.lower
    import qnndbg.pipeline.measure
    import qnndbg.pipeline.script  # noqa: F401  loaded once, for all forks

    gc.freeze()
    recording: Any = record
    started = recording.run_job
    recording.run_job = run_forked
    try:
        yield
    finally:
        recording.run_job = started


def run_forked(
    function: str,
    payload: Mapping[str, object],
    *,
    log: Path,
    on_event: Callable[[worker.Event], None] | None = None,
    env: Mapping[str, str] | None = None,
    terminal: bool = False,
) -> object:
    """As :func:`qnndbg.execute.worker.run_job`, which says what the arguments are."""
    log.parent.mkdir(parents=True, exist_ok=True)
    start = log.stat().st_size if log.exists() else 0
    read, write = os.pipe()
    process = os.fork()
    if not process:
        _work(function, payload, log, write)
    os.close(write)
    with open(read, "rb") as messages:  # noqa: PTH123  a descriptor has no path
        answer, step = worker._follow(messages, on_event)
    _, status = os.waitpid(process, 0)
    if "result" in answer:
        return answer["result"]
    if "error" in answer:
        raise worker._error_from_answer(answer["error"], log, start)
    raise worker._crash(os.waitstatus_to_exitcode(status), step, log, start)


def _work(function: str, payload: Mapping[str, object], log: Path, pipe: int) -> None:
    try:
        sink = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for descriptor in (1, 2):
            os.dup2(sink, descriptor)
        with open(pipe, "wb") as messages:
            child._answer({"function": function, "payload": payload}, messages)
    except BaseException:  # noqa: BLE001  told to the parent; a fork must not go on in its code
        os._exit(1)
    os._exit(0)

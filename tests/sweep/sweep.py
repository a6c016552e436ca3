"""Runs upstream's tests in worker processes, and goes on after one that died.

A worker that dies, of a native crash or of its time limit, costs the lowering that it was at; the next
worker goes on with the one after it.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from qnndbg.errors import WorkerCrashedError
from qnndbg.execute.worker import run_job
from tests.sweep.rows import LOG, Row

RECYCLED = 12
"""Tests that one worker runs; with about two lowerings each it leaks less than 100 MB."""
JOB = "tests.sweep.job:work"


def discover(keep: Path) -> list[str]:
    """The names of all of upstream's op tests."""
    return msgspec.convert(run_job("tests.sweep.job:discover", {}, log=keep / LOG), list[str])


def chosen(names: Iterable[str], *, select: str, limit: int, seed: int) -> list[str]:
    """Those that match, in an order that the seed gives; so every part of them is a sample."""
    found = [name for name in names if re.search(select, name)]
    random.Random(seed).shuffle(found)
    return found[:limit] if limit else found


def sweep(
    task: dict[str, Any], names: list[str], show: Callable[[Row], None], job: str = JOB
) -> Iterator[list[Row]]:
    """Run the tests; yields the rows of those that ended, worker by worker.

    Args:
        task: a :class:`tests.sweep.job.Task` but for its tests.
        names: of the tests.
        show: called with each row as soon as there is one.
        job: what a worker does.
    """
    log, waiting, first = Path(task["keep"]) / LOG, list(names), 0
    rows: list[Row] = []

    def found(row: Row) -> None:
        rows.append(row)
        show(row)

    while waiting:
        worker = _Worker(waiting, found)
        payload = {**task, "tests": waiting[:RECYCLED], "first": first}
        try:
            run_job(job, payload, log=log, on_event=worker.event)
            first = 0
        except WorkerCrashedError as error:
            if worker.at is None:
                raise  # it never came to a test
            late = time.monotonic() - worker.since >= task["limit"]
            found(replace(worker.at, why=f"took longer than {task['limit']:g} s" if late else error.fact))
            first = worker.at.case + 1
        yield [row for row in rows if row.test not in waiting]
        rows[:] = [row for row in rows if row.test in waiting]


class _Worker:
    """Follows a worker by what it reports."""

    def __init__(self, waiting: list[str], found: Callable[[Row], None]) -> None:
        self.waiting = waiting
        """Tests that did not end yet; those that do are taken out."""
        self.at: Row | None = None
        """The lowering at work, as it is if the worker dies."""
        self.since = 0.0
        """When it began, on the monotonic clock."""
        self._found = found

    def event(self, event: dict[str, object]) -> None:
        """What the worker reports."""
        if "begun" in event:
            self.since = time.monotonic()
            self.at = msgspec.convert({**_mapping(event["begun"]), "status": "crashed"}, Row)
        elif "row" in event:
            self._found(msgspec.convert(event["row"], Row))
        elif "ended" in event:
            self.waiting.remove(str(event["ended"]))


def _mapping(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value

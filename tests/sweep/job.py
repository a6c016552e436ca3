"""What a worker process does: run some upstream tests one after the other, and tell of each lowering.

A worker goes through several tests, since importing upstream's takes longer than most of them; it is
replaced after those, since each lowering leaks. A lowering that takes too long ends the worker from a
thread that no native code can hold up.
"""

from __future__ import annotations

import faulthandler
import random
import unittest
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import msgspec
import numpy as np
import torch
from msgspec import Struct

from tests.sweep import upstream
from tests.sweep.rows import Row
from tests.sweep.seam import ENOUGH, Seam

Report = Callable[[dict[str, object]], None]


class Task(Struct, frozen=True, kw_only=True):
    """Some tests, and how they are run."""

    tests: tuple[str, ...]
    keep: str
    """The folder of all recordings."""
    seed: int
    most: int
    """Lowerings of a test; 0 for all."""
    limit: float
    """Seconds for one lowering and its measurements."""
    peer: bool
    apart: bool
    first: int = 0
    """The lowering of the first test to go on with."""


def discover(_payload: object, _report: Report) -> list[str]:
    """The names of all tests."""
    return upstream.discover(upstream.load())


def work(payload: object, report: Report) -> None:
    """Run a :class:`Task`; reports ``begun``, ``row`` and ``ended`` events."""
    task = msgspec.convert(payload, Task)
    tests = upstream.load()
    for number, name in enumerate(task.tests):
        _run(tests, name, task, task.first if number == 0 else 0, report)


def _run(tests: ModuleType, name: str, task: Task, first: int, report: Report) -> None:
    rows: list[Row] = []

    def begun(case: int, model: str) -> None:
        faulthandler.dump_traceback_later(task.limit, exit=True, file=2)
        report({"step": f"lowering {case}", "begun": {"test": name, "case": case, "model": model}})

    def done(row: Row) -> None:
        rows.append(row)
        report({"row": msgspec.to_builtins(row)})

    begun(first, "")
    random.seed(task.seed)
    np.random.seed(task.seed)
    torch.manual_seed(task.seed)
    seam = Seam(
        test=name,
        keep=Path(task.keep),
        first=first,
        most=task.most,
        peer=task.peer,
        apart=task.apart,
        begun=begun,
        done=done,
    )
    result = unittest.TestResult()
    with seam.installed(tests):
        unittest.TestSuite([upstream.upstream_test(tests, name)]).run(result)
    faulthandler.cancel_dump_traceback_later()
    if not rows and not first:
        done(_unlowered(name, result))
    report({"ended": name})


def _unlowered(name: str, result: unittest.TestResult) -> Row:
    """The row of a test that never came to lower anything."""
    skipped = [reason for _, reason in result.skipped if reason != ENOUGH]
    if skipped:
        return Row(test=name, status="skipped", why=skipped[0])
    failed = [text for _, text in (*result.errors, *result.failures)]
    if failed:
        return Row(test=name, status="upstream failed", why=failed[0].strip().rpartition("\n")[2][:300])
    return Row(test=name, status="nothing lowered", why="the test looks at the quantiser or a pass only")

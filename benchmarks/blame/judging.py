"""Records cases, each in a fork, and judges what they left."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.blame.forking import forked_jobs
from qnndbg.analyze.compare import compare
from qnndbg.analyze.verdict import empty_comparison
from qnndbg.errors import QnndbgError, UsageError
from qnndbg.model.result import Comparison, Verdict
from qnndbg.pipeline.record import Request, record
from qnndbg.recording.store import open_recording
from qnndbg.recording.writer import Writer

REFERENCES = ("annotation", "export", "edge", "transform", "reference", "local")
"""Runs that :func:`refer` makes; the others are of the emulator or of the module itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A case to be recorded."""

    name: str
    target: str
    precision: str


def record_all(orders: Iterable[Order], keep: Path, note: Callable[[str], None]) -> None:
    """Record every case below a folder; a failure is an answer too.

    Args:
        orders: the cases.
        keep: gets a recording of each, or a text that says why there is none.
        note: called with a line on each.
    """
    keep.mkdir(parents=True, exist_ok=True)
    with forked_jobs():
        for order in orders:
            start = time.monotonic()
            said = _record(order, keep) or "done"
            note(f"{order.name}: {said} ({time.monotonic() - start:.1f} s)")


def _record(order: Order, keep: Path) -> str:
    refusal = keep / f"{order.name}.txt"
    refusal.unlink(missing_ok=True)
    folder = keep / f"{order.name}.qnndbg"
    try:
        record(Request(target=order.target, precision=order.precision, output=folder, force=True), _nothing)
    except UsageError as error:
        refusal.write_text(error.fact)
        return error.fact
    except QnndbgError as error:
        return error.fact
    return ""


def judge_kept(name: str, keep: Path) -> Comparison | None:
    """The answer to a kept recording, computed anew; None if there is none."""
    refusal = keep / f"{name}.txt"
    if refusal.exists():
        fact = refusal.read_text()
        return empty_comparison(
            Verdict(kind="lowering", text=f"lowering: {fact}", culprit="target", next_step="")
        )
    folders = [folder for folder in _places(name, keep) if folder.exists()]
    return compare(open_recording(folders[0])) if folders else None


def refer_again(name: str, keep: Path) -> None:
    """Run the references of a kept recording once more, and attribute its errors anew."""
    from qnndbg.pipeline.refer import refer

    for folder in _places(name, keep):
        if not (folder / "runs").exists():
            continue
        for runner in REFERENCES:
            for run in (folder / "runs").glob(f"{runner}.*json"):
                run.unlink()
        for part in ("attributions", "pass-changes"):
            shutil.rmtree(folder / part, ignore_errors=True)
        refer(folder)
        Writer(folder).comparison(compare(open_recording(folder)))


def _places(name: str, keep: Path) -> Iterator[Path]:
    yield keep / f"{name}.qnndbg"
    yield keep / f"{name}-failed.qnndbg"


def _nothing(_event: dict[str, object]) -> None:
    """Progress is of no interest."""

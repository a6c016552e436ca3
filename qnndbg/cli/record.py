"""``qnndbg record``: from a model to a recording with a per-layer answer, with progress on stderr."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from qnndbg.cli.show import print_report
from qnndbg.errors import EXIT_OK, NothingComparedError
from qnndbg.pipeline.record import Request, record

STEPS = {
    "start": "start a worker, load torch and the QNN libraries",
    "load": "load the target",
    "eager": "run the eager model",
    "export": "export",
    "quantise": "quantise and calibrate",
    "lower": "lower",
    "tap": "build again with every intermediate dumped",
    "htp": "run on the HTP emulator",
    "htp-tapped": "run on the HTP emulator, with the dump",
    "refer": "run the CPU references",
    "compare": "compare",
}


def add_parser(subparsers: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "record",
        help="record a model's lowering and compare every layer with the CPU",
        description="Record a model's lowering and compare every layer of the HTP emulator with the CPU.",
    )
    parser.add_argument("target", help="file.py:factory, package.module:factory or example:NAME")
    parser.add_argument(
        "--precision",
        default="fp16",
        help="fp16, or what the installed QuantDtype offers: 8a8w, 16a8w ... (fp16)",
    )
    parser.add_argument("--soc", default="SM8650", help="a name of the installed QcomChipset (SM8650)")
    parser.add_argument("-o", "--output", type=Path, help="the recording's folder (NAME-PRECISION.qnndbg)")
    parser.add_argument("--sdk", help="a QNN SDK (QNN_SDK_ROOT, then the one that pip installed)")
    parser.add_argument("--force", action="store_true", help="replace a recording that is already there")
    parser.add_argument("-q", "--quiet", action="store_true", help="no report and no progress")


def run(args: argparse.Namespace) -> int:
    """Record, print the report, and say where the recording is."""
    request = Request(
        target=args.target,
        precision=args.precision,
        soc=args.soc,
        output=args.output,
        sdk=args.sdk,
        force=args.force,
    )
    with _Progress(quiet=args.quiet) as progress:
        recording = record(request, progress.event)
    if not args.quiet:
        print_report(recording)
    print(f"wrote {recording.folder}", file=sys.stderr)
    comparison = recording.comparison()
    if comparison is not None and not comparison.coverage.compared:
        raise NothingComparedError(comparison.verdict.text, comparison.verdict.next_step)
    return EXIT_OK


class _Progress:
    """A line per step, with its time; on a terminal the current one moves and counts its passes."""

    def __init__(self, *, quiet: bool) -> None:
        console = Console(stderr=True, quiet=quiet)
        columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, disable=quiet)
        self._console = console
        self._task: Any = None
        self._step = ""
        self._passes = 0

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._finish()
        self._bar.stop()

    def event(self, event: dict[str, object]) -> None:
        """Show an event of a worker."""
        if "step" in event:
            self._finish()
            self._step, self._passes = str(event["step"]), 0
            self._task = self._bar.add_task(STEPS.get(self._step, self._step), total=1)
        elif event.get("pass"):
            self._passes += 1
            self._bar.update(
                self._task, description=f"{STEPS.get(self._step, self._step)}: {self._passes} passes"
            )

    def _finish(self) -> None:
        if self._task is not None:
            self._bar.update(self._task, completed=1)
            self._task = None

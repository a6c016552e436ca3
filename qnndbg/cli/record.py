"""``qnndbg record``: from a model to a recording with a per-layer answer, with progress on stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from shlex import quote
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from qnndbg.cli.events import as_lines, end_with_parent, print_event
from qnndbg.cli.show import print_report
from qnndbg.errors import EXIT_OK, NothingComparedError, UsageError
from qnndbg.model.recording import Failure
from qnndbg.pipeline.record import Outcome, Request, record, record_script
from qnndbg.recording.store import Recording

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


VALUED = ("--precision", "--soc", "-o", "--output", "--sdk")
"""Options that are followed by a value."""
DEFAULT_PRECISION = "fp16"
DEFAULT_SOC = "SM8650"


def add_parser(subparsers: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "record",
        help="record a model's lowering and compare every layer with the CPU",
        description="Record a model's lowering and compare every layer of the HTP emulator with the CPU.",
        epilog="Arguments behind SCRIPT.py are the script's own; it is run unchanged.",
    )
    parser.add_argument("target", help="SCRIPT.py, file.py:factory, package.module:factory or example:NAME")
    parser.add_argument(
        "--precision", help="fp16, or what the installed QuantDtype offers: 8a8w, 16a8w ... (fp16)"
    )
    parser.add_argument("--soc", help="a name of the installed QcomChipset (SM8650)")
    parser.add_argument("-o", "--output", type=Path, help="the recording's folder (NAME-PRECISION.qnndbg)")
    parser.add_argument("--sdk", help="a QNN SDK (QNN_SDK_ROOT, then the one that pip installed)")
    parser.add_argument("--force", action="store_true", help="replace a recording that is already there")
    parser.add_argument("-q", "--quiet", action="store_true", help="no report and no progress")


def split(argv: Sequence[str], valued: Collection[str] = VALUED) -> tuple[Sequence[str], tuple[str, ...]]:
    """Our own arguments, and those behind a script, which are the script's.

    Args:
        argv: the verb and all that follows.
        valued: the verb's options that are followed by a value.
    """
    taken = True  # the verb itself
    for i, word in enumerate(argv):
        if not taken and not word.startswith("-"):
            return (argv[: i + 1], tuple(argv[i + 1 :])) if word.endswith(".py") else (argv, ())
        taken = word in valued
    return argv, ()


def run(args: argparse.Namespace, script_arguments: tuple[str, ...] = ()) -> int:
    """Record, print the report, and say where the recording is."""
    if as_lines():
        end_with_parent()
    if args.target.endswith(".py"):
        return _run_script(args, script_arguments)
    recording = record_target(args.target, args, force=args.force)
    if not args.quiet:
        print_report(recording)
    print(f"wrote {recording.folder}", file=sys.stderr)
    if as_lines():
        print_event(wrote=str(recording.folder))
    comparison = recording.comparison()
    if comparison is not None and not comparison.coverage.compared:
        raise NothingComparedError(comparison.verdict.text, comparison.verdict.next_step)
    return EXIT_OK


def record_target(target: str, args: argparse.Namespace, *, force: bool) -> Recording:
    """Record a factory as the arguments say, with progress on stderr.

    Args:
        target: ``file.py:factory``, ``package.module:factory`` or ``example:NAME``.
        args: precision, soc, output, sdk and quiet.
        force: replace a recording that is already there.
    """
    request = Request(
        target=target,
        precision=args.precision or DEFAULT_PRECISION,
        soc=args.soc or DEFAULT_SOC,
        output=args.output,
        sdk=args.sdk,
        force=force,
    )
    with _Progress(quiet=args.quiet) as progress:
        return record(request, progress.event)


def record_scripted(args: argparse.Namespace, arguments: tuple[str, ...], *, force: bool) -> Outcome:
    """Run a script as if it ran alone, with progress on stderr.

    Args:
        args: target, precision, soc, output, sdk and quiet.
        arguments: the script's own.
        force: replace recordings that are already there.

    Raises:
        UsageError: a precision or a SoC is asked for.
    """
    if args.precision or args.soc:
        raise UsageError(
            "a script says itself which precision and SoC it lowers to", "leave out --precision and --soc"
        )
    request = Request(target=args.target, arguments=arguments, output=args.output, sdk=args.sdk, force=force)
    with _Progress(quiet=args.quiet) as progress:
        return record_script(request, progress.script_event)


def _run_script(args: argparse.Namespace, arguments: tuple[str, ...]) -> int:
    """Run a script; its output, its files and its exit code are its own, so what we say goes to stderr."""
    outcome = record_scripted(args, arguments, force=args.force)
    if not outcome.recordings:
        print(
            f"{args.target} lowered nothing to QNN in its own process; nothing is recorded", file=sys.stderr
        )
        if outcome.exit_code == EXIT_OK:
            print(f"hint: a factory in it is recorded by its name: {args.target}:NAME", file=sys.stderr)
    for recording in outcome.recordings:
        comparison, failure = recording.comparison(), recording.manifest.failure
        said = _failure(failure) if failure else comparison.verdict.text if comparison else "not compared"
        see = f"qnndbg show {quote(str(recording.folder))}"
        print(f"{said}\nwrote {recording.folder}; see it: {see}", file=sys.stderr)
        if as_lines():
            print_event(wrote=str(recording.folder))
    return outcome.exit_code


def _failure(failure: Failure) -> str:
    return f"{failure.error}\nhint: {failure.hint}" if failure.hint else failure.error


class _Progress:
    """A line per step, with its time; on a terminal the current one moves and counts its passes."""

    def __init__(self, *, quiet: bool) -> None:
        self._lines = as_lines() and not quiet
        quiet = quiet or self._lines
        console = Console(stderr=True, quiet=quiet)
        columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, disable=quiet)
        self._console = console
        self._task: Any = None
        self._step = ""
        self._passes = 0
        self._ours = False

    def __enter__(self) -> _Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._finish()
        self._bar.stop()

    def script_event(self, event: dict[str, object]) -> None:
        """Show an event, but only once a script has ended: until then the terminal is its own."""
        self._ours = self._ours or self._lines or "exit" in event
        if self._ours:
            self.event(event)

    def event(self, event: dict[str, object]) -> None:
        """Show an event of a worker."""
        if self._lines:
            if "step" in event:
                print_event(step=event["step"], text=STEPS.get(str(event["step"]), event["step"]))
            elif "pass" in event:
                print_event(**{"pass": event["pass"]}, stage=event["stage"])
        elif "step" in event:
            self._finish()
            self._bar.start()
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

"""``qnndbg show``: the answer that a recording holds, in any format. Reads; loads nothing of torch."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from rich.console import Console

from qnndbg.cli import Subparsers
from qnndbg.cli.output import print_drawn, print_warning
from qnndbg.cli.report_file import FORMATS, add_output, check_output, count, drawn, write_report
from qnndbg.errors import EXIT_OK, NothingComparedError, RecordingError
from qnndbg.recording.parts import lost_parts
from qnndbg.recording.store import Recording, open_recording
from qnndbg.report import text
from qnndbg.report.layers import Order


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb and its arguments."""
    parser = subparsers.add_parser(
        "show",
        help="print what a recording says",
        description="Print what a recording says: the verdict, the error of the outputs step by step, the "
        "layers with their accumulated and local error, and what was compared. Exit code 5: nothing was; "
        "3: the recording is damaged.",
    )
    parser.add_argument("recording", type=Path, help="the folder that qnndbg record wrote")
    parser.add_argument("--format", choices=FORMATS, default="text", help="what to print (%(default)s)")
    add_output(parser)
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument(
        "--layers", type=count, default=text.SHOWN_LAYERS, metavar="N", help="rows of the text (%(default)s)"
    )
    rows.add_argument("--all", action="store_true", help="leave nothing out of the text")
    parser.add_argument(
        "--sort",
        choices=("effect", "local", "accumulated", "order"),
        help="the order of the layers (text and HTML: local; JSON and CSV: order, that of execution)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the report.

    Raises:
        NothingComparedError: the recording is complete, and yet no QNN tensor could be compared.
        RecordingError: it cannot be read, or parts of it are missing, which is said below the report.
    """
    recording = open_recording(args.recording)
    check_output(args.output, recording.folder)
    if args.format != "text":  # imported here, so that the text need not load what draws graphs
        reports = import_module("qnndbg.report.formats").REPORTS
        write_report(reports[args.format](recording, args.sort), args.output)
    else:
        draw = _drawing(recording, None if args.all else args.layers, args.sort or "local")
        print_drawn(draw) if args.output is None else write_report(drawn(draw), args.output)
    _warn(recording)
    refuse_damaged(recording)
    _check_compared(recording)
    return EXIT_OK


def _warn(recording: Recording) -> None:
    """Say what is missing of that which the report was made from, and which it does not show."""
    if not recording.canonical:  # a baseline holds none of it
        for problem in lost_parts(recording):
            print_warning(problem)


def refuse_damaged(*recordings: Recording) -> None:
    """Say so of a recording that lacks parts, once what is left of it was shown.

    Raises:
        RecordingError: parts are missing.
    """
    for recording in recordings:
        if damage := recording.damage():
            raise RecordingError(
                f"{recording.folder} is damaged: {damage}",
                "what is shown is what is left of it; copy it again from where it was made, or record again",
            )


def print_report(
    recording: Recording, *, layers: int | None = text.SHOWN_LAYERS, sort: Order = "local"
) -> None:
    """Print a recording's report to stdout, in the width and the colours that the terminal has.

    Args:
        recording: complete or not.
        layers: how many to show at most; None leaves nothing out.
        sort: the order of the layers.
    """
    print_drawn(_drawing(recording, layers, sort))


def _drawing(recording: Recording, layers: int | None, sort: Order) -> Callable[[Console], None]:
    parts = (recording.manifest, recording.comparison(), recording.passes)
    return lambda console: text.print_report(console, *parts, layers=layers, sort=sort)


def _check_compared(recording: Recording) -> None:
    comparison = recording.comparison()
    if recording.manifest.complete and comparison is not None and not comparison.coverage.compared:
        fact = f"{recording.folder} is complete, and yet no QNN tensor could be compared"
        raise NothingComparedError(fact, comparison.verdict.next_step)

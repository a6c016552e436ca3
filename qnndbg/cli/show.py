"""``qnndbg show``: the answer that a recording holds, as text or JSON. Reads; loads nothing of torch."""

from __future__ import annotations

import argparse
from pathlib import Path

from qnndbg.cli import Subparsers
from qnndbg.cli.output import print_drawn
from qnndbg.errors import EXIT_OK, NothingComparedError, RecordingError
from qnndbg.recording.store import Recording, open_recording
from qnndbg.report import text
from qnndbg.report.as_json import json_report
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
    parser.add_argument("--format", choices=("text", "json"), default="text")
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument(
        "--layers", type=_count, default=text.SHOWN_LAYERS, metavar="N", help="rows of the text (%(default)s)"
    )
    rows.add_argument("--all", action="store_true", help="leave nothing out of the text; JSON never does")
    parser.add_argument(
        "--sort",
        choices=("effect", "local", "accumulated", "order"),
        help="the order of the layers (text: local; JSON: order, that of execution)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the report.

    Raises:
        NothingComparedError: the recording is complete, and yet no QNN tensor could be compared.
        RecordingError: it cannot be read, or parts of it are missing, which is said below the report.
    """
    recording = open_recording(args.recording)
    if args.format == "json":
        parts = (recording.manifest, recording.comparison(), recording.passes)
        print(json_report(*parts, sort=args.sort or "order"))
    else:
        print_report(recording, layers=None if args.all else args.layers, sort=args.sort or "local")
    if damage := recording.damage():
        raise RecordingError(
            f"{recording.folder} is damaged: {damage}",
            "what is shown is what is left of it; copy it again from where it was made, or record again",
        )
    _check_compared(recording)
    return EXIT_OK


def print_report(
    recording: Recording, *, layers: int | None = text.SHOWN_LAYERS, sort: Order = "local"
) -> None:
    """Print a recording's report to stdout, in the width and the colours that the terminal has.

    Args:
        recording: complete or not.
        layers: how many to show at most; None leaves nothing out.
        sort: the order of the layers.
    """
    parts = (recording.manifest, recording.comparison(), recording.passes)
    print_drawn(lambda console: text.print_report(console, *parts, layers=layers, sort=sort))


def _check_compared(recording: Recording) -> None:
    comparison = recording.comparison()
    if recording.manifest.complete and comparison is not None and not comparison.coverage.compared:
        fact = f"{recording.folder} is complete, and yet no QNN tensor could be compared"
        raise NothingComparedError(fact, comparison.verdict.next_step)


def _count(word: str) -> int:
    if not word.isdecimal() or not int(word):
        raise argparse.ArgumentTypeError(f"{word!r} is no number of layers")
    return int(word)

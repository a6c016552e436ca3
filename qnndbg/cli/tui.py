"""``qnndbg tui``: walk through a recording in the terminal. Reads; loads nothing of torch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from qnndbg.cli import Subparsers
from qnndbg.errors import EXIT_INTERNAL, UsageError
from qnndbg.recording.store import open_recording


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb and its arguments."""
    parser = subparsers.add_parser(
        "tui",
        help="walk through a recording in the terminal",
        description="Walk through a recording in the terminal: the answer, the passes, every compared "
        "value, the graphs and the tensors; or through two of them and what differs. Press ? for the keys.",
    )
    parser.add_argument("recording", type=Path, help="the folder that qnndbg record wrote")
    parser.add_argument("other", type=Path, nargs="?", help="a second one, to look at what differs")
    parser.add_argument(
        "--source",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="where the model's source files are, to show their lines (the current folder)",
    )


def run(args: argparse.Namespace) -> int:
    """Show it until the user leaves.

    Raises:
        UsageError: there is no terminal.
        RecordingError: the recording cannot be read.
    """
    recording = open_recording(args.recording)
    other = open_recording(args.other) if args.other is not None else None
    if recording.canonical and other is None:
        raise UsageError(
            f"{args.recording} is a baseline, which has no graphs and tensors to walk through",
            f"look at what differs from it: qnndbg tui {args.recording} RECORDING",
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "the terminal UI needs a terminal for its input and output",
            f"print the report instead: qnndbg show {args.recording}",
        )
    from qnndbg.tui import escape

    escape.soon()
    from qnndbg.tui.app import run as run_app  # Textual takes half a second that no other verb pays

    code = run_app(recording, args.source, other)
    return EXIT_INTERNAL if code == 1 else code

"""``qnndbg diff``: what changed between two recordings, and which change moved the numbers. Reads only."""

from __future__ import annotations

import argparse
from pathlib import Path

from qnndbg.analyze.diff.recordings import diff_recordings
from qnndbg.cli import Subparsers
from qnndbg.cli.output import print_drawn
from qnndbg.errors import EXIT_DIFFERENCE, EXIT_OK
from qnndbg.recording.store import open_recording
from qnndbg.report.diff_json import diff_json
from qnndbg.report.diff_text import print_diff


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb and its arguments."""
    parser = subparsers.add_parser(
        "diff",
        help="say what changed between two recordings",
        description="Say whether two recordings are the same; if not, at which pass they part, what that did "
        "to the numbers, which layers regressed or were fixed, and all else that differs. Renaming is no "
        "difference, and neither are times or the environment alone. Exit code 1: they differ.",
    )
    parser.add_argument("a", type=Path, metavar="A", help="a recording, the one to compare with")
    parser.add_argument("b", type=Path, metavar="B", help="another one")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--all", action="store_true", help="leave nothing out of the text; JSON never does")


def run(args: argparse.Namespace) -> int:
    """Print the difference.

    Raises:
        RecordingError: one of the two cannot be read.
    """
    diff = diff_recordings(open_recording(args.a), open_recording(args.b))
    if args.format == "json":
        print(diff_json(diff))
    else:
        print_drawn(lambda console: print_diff(console, diff, everything=args.all))
    return EXIT_OK if diff.same else EXIT_DIFFERENCE

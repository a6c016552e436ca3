"""``qnndbg diff``: what changed between two recordings, and which change moved the numbers. Reads only."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import get_args

from rich.console import Console

from qnndbg.analyze.diff.recordings import collector_paused
from qnndbg.cli import Subparsers
from qnndbg.cli.output import print_drawn
from qnndbg.cli.report_file import FORMATS, add_output, check_output, count, drawn, write_report
from qnndbg.cli.show import refuse_damaged
from qnndbg.errors import EXIT_DIFFERENCE, EXIT_OK
from qnndbg.recording.store import open_recording
from qnndbg.report.diff_layers import DiffOrder
from qnndbg.report.diff_pair import pair_from_recordings
from qnndbg.report.diff_text import SHOWN, print_diff


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
    parser.add_argument("--format", choices=FORMATS, default="text", help="what to print (%(default)s)")
    add_output(parser)
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument(
        "--layers", type=count, default=SHOWN, metavar="N", help="layers of the text (%(default)s)"
    )
    rows.add_argument("--all", action="store_true", help="leave nothing out of the text")
    parser.add_argument(
        "--sort",
        choices=get_args(DiffOrder),
        help="the order of the layers (text and HTML: status; JSON and CSV: order, that of execution); "
        "local and accumulated go by the decibels that B lost",
    )


@collector_paused()
def run(args: argparse.Namespace) -> int:
    """Print the difference.

    Raises:
        RecordingError: one of the two cannot be read, or parts of it are missing, which is said below.
    """
    a, b = open_recording(args.a), open_recording(args.b)
    check_output(args.output, a.folder, b.folder)
    pair = pair_from_recordings(a, b)

    def draw(console: Console) -> None:
        order: DiffOrder = args.sort or "status"
        print_diff(console, pair.diff, everything=args.all, layers=args.layers, sort=order)

    if args.format != "text":  # imported here, so that the text need not load them
        reports = import_module("qnndbg.report.diff_formats").DIFFS
        write_report(reports[args.format](pair, args.sort), args.output)
    elif args.output is not None:
        write_report(drawn(draw), args.output)
    else:
        print_drawn(draw)
    refuse_damaged(a, b)
    return EXIT_OK if pair.diff.same else EXIT_DIFFERENCE

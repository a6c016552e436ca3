"""``qnndbg check``: judges a recording, or what is recorded just now, against a baseline by a policy."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from rich.console import Console

from qnndbg.analyze.baseline.reduce import baseline_of
from qnndbg.cli import Subparsers
from qnndbg.cli.check_sides import first_place, is_recording, is_script, numbered, opened, recordings
from qnndbg.cli.output import print_drawn
from qnndbg.cli.report_file import FORMATS, check_output, drawn, write_report
from qnndbg.errors import EXIT_DIFFERENCE, EXIT_OK, UsageError
from qnndbg.gate.policy import POLICY_FILE, Policy, read_policy
from qnndbg.gate.triage import compared, triage
from qnndbg.model.triage import Triage
from qnndbg.recording.baseline import BASELINE_SUFFIX, write_baseline
from qnndbg.recording.store import Recording
from qnndbg.report.triage_text import print_triage

VALUED = ("--baseline", "--policy", "--format", "--report", "--precision", "--soc", "-o", "--output", "--sdk")
"""Options that are followed by a value."""


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb and its arguments."""
    parser = subparsers.add_parser(
        "check",
        help="judge a recording against a baseline",
        description="Judge a recording, or a target or script that is recorded first, against a baseline by "
        "a policy: what regressed, was fixed, is new or missing, and which pass or rung is to blame. Exit "
        "code 1: it regressed.",
        epilog="Arguments behind SCRIPT.py are the script's own. Each lowering in it is judged by itself: "
        "the second one against NAME-2, and so on.",
    )
    parser.add_argument("what", metavar="RECORDING|TARGET", help="a recording, or what `record` takes")
    parser.add_argument(
        "--baseline", type=Path, help=f"a baseline or recording (snapshots/NAME{BASELINE_SUFFIX})"
    )
    parser.add_argument("--no-baseline", action="store_true", help="ask the policy alone")
    parser.add_argument("--policy", type=Path, help=f"({POLICY_FILE}, if it is there)")
    parser.add_argument("--update", action="store_true", help="accept what is there now as the baseline")
    parser.add_argument("--format", choices=FORMATS, default="text", help="what to print (%(default)s)")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write the report to a file; its folder must exist"
    )
    parser.add_argument("--all", action="store_true", help="leave nothing out of the text")
    recording = parser.add_argument_group("of what is recorded first")
    recording.add_argument("--precision", help="see `record` (fp16)")
    recording.add_argument("--soc", help="see `record` (SM8650)")
    recording.add_argument(
        "-o", "--output", type=Path, help="keep the recording here (NAME-PRECISION.qnndbg)"
    )
    recording.add_argument("--sdk", help="a QNN SDK")
    recording.add_argument("-q", "--quiet", action="store_true", help="no progress")


def split(argv: Sequence[str]) -> tuple[Sequence[str], tuple[str, ...]]:
    """Our own arguments, and those behind a script, which are the script's."""
    if not any(word.endswith(".py") for word in argv):  # nor need what records be loaded
        return argv, ()
    found: tuple[Sequence[str], tuple[str, ...]] = import_module("qnndbg.cli.record").split(argv, VALUED)
    return found


def run(args: argparse.Namespace, script_arguments: tuple[str, ...] = ()) -> int:
    """Judge, print the triage, and accept what there is if that was asked for.

    Raises:
        UsageError: the policy is refused, there is no baseline, or the report cannot be written as asked.
        LoweringError: a script failed.
        NothingComparedError: a script lowered nothing.
        RecordingError: the recording or the baseline cannot be read.
    """
    _refuse_senseless(args)
    policy = _policy(args.policy)
    place = None if args.no_baseline else first_place(args)
    opened(place, args.what, update=args.update)  # before anything takes long
    made = recordings(args, script_arguments)
    if len(made) > 1 and args.format != "text" and args.report is None:
        raise UsageError(
            f"{args.what} left {len(made)} recordings, and one {args.format} report is of one",
            "add --report FILE: the second recording's goes to FILE-2, and so on",
        )
    return max(_check(args, policy, place, one, number) for number, one in enumerate(made))


def _refuse_senseless(args: argparse.Namespace) -> None:
    if args.update and args.no_baseline:
        raise UsageError("--update makes a baseline, --no-baseline takes none", "leave one of them out")
    there = is_recording(args.what) and not is_script(args.what)
    if args.output is not None and there:
        raise UsageError(
            "-o keeps a new recording, and here none is made", "--report FILE writes the report to a file"
        )
    check_output(args.report, *([Path(args.what)] if there else []))


def _check(
    args: argparse.Namespace, policy: Policy, first: Path | None, recording: Recording, number: int
) -> int:
    """Judge one recording; of a script's, each against a baseline of its own."""
    place = first and numbered(first, number)
    before = opened(place, args.what, update=args.update)
    if before is None and args.update:
        compared(recording)  # a baseline must be one that passes could be held against
    else:
        found = triage(recording, before, policy)
        _write(found, recording, args, args.report and numbered(args.report, number))
        if not args.update:
            return EXIT_OK if found.passed else EXIT_DIFFERENCE
    assert place is not None
    write_baseline(place, baseline_of(recording))
    print(f"{'accepted' if before else 'wrote'} {place}", file=sys.stderr)
    return EXIT_OK


def _write(found: Triage, recording: Recording, args: argparse.Namespace, file: Path | None) -> None:
    def draw(console: Console) -> None:
        print_triage(console, found, everything=args.all)

    if args.format != "text":  # imported here, so that the text need not load them
        reports = import_module("qnndbg.report.diff_formats").TRIAGES
        write_report(reports[args.format](found, recording), file)
    elif file is not None:
        write_report(drawn(draw), file)
    else:
        print_drawn(draw)


def _policy(path: Path | None) -> Policy:
    default = Path(POLICY_FILE)
    if path is None and not default.is_file():
        return Policy()
    return read_policy(path or default, datetime.datetime.now(datetime.UTC).date())

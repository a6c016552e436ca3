"""``qnndbg check``: judges a recording, or a target recorded just now, against a baseline by a policy."""

from __future__ import annotations

import argparse
import datetime
import sys
from dataclasses import dataclass
from pathlib import Path

from qnndbg.analyze.baseline.reduce import baseline_of
from qnndbg.cli import Subparsers
from qnndbg.cli.output import print_drawn
from qnndbg.errors import EXIT_DIFFERENCE, EXIT_OK, UsageError
from qnndbg.gate.policy import POLICY_FILE, Policy, read_policy
from qnndbg.gate.triage import compared, triage
from qnndbg.model.triage import Triage
from qnndbg.recording.baseline import BASELINE_SUFFIX, write_baseline
from qnndbg.recording.place import SUFFIX
from qnndbg.recording.store import Recording, open_recording
from qnndbg.report.triage_json import triage_json
from qnndbg.report.triage_text import print_triage

FOLDER = Path("snapshots")


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb and its arguments."""
    parser = subparsers.add_parser(
        "check",
        help="judge a recording against a baseline",
        description="Judge a recording, or a target that is recorded first, against a baseline by a policy: "
        "what regressed, was fixed, is new or missing, and which pass or rung is to blame. Exit code 1: "
        "it regressed.",
    )
    parser.add_argument("what", metavar="RECORDING|TARGET", help="a recording, or what `record` takes")
    parser.add_argument(
        "--baseline", type=Path, help=f"a baseline or recording ({FOLDER}/NAME{BASELINE_SUFFIX})"
    )
    parser.add_argument("--no-baseline", action="store_true", help="ask the policy alone")
    parser.add_argument("--policy", type=Path, help=f"({POLICY_FILE}, if it is there)")
    parser.add_argument("--update", action="store_true", help="accept what is there now as the baseline")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--all", action="store_true", help="leave nothing out of the text; JSON never does")
    recording = parser.add_argument_group("of a target that is recorded first")
    recording.add_argument("--precision", help="see `record` (fp16)")
    recording.add_argument("--soc", help="see `record` (SM8650)")
    recording.add_argument(
        "-o", "--output", type=Path, help="keep the recording here (NAME-PRECISION.qnndbg)"
    )
    recording.add_argument("--sdk", help="a QNN SDK")
    recording.add_argument("-q", "--quiet", action="store_true", help="no progress")


@dataclass(frozen=True, slots=True)
class _Request:
    """What a check needs beside the recording."""

    policy: Policy
    baseline: Path | None
    """Where the baseline is, or goes to; None to ask the policy alone."""


def run(args: argparse.Namespace) -> int:
    """Judge, print the triage, and accept what there is if that was asked for.

    Raises:
        UsageError: the policy is refused, or there is no baseline.
        RecordingError: the recording or the baseline cannot be read.
    """
    if args.update and args.no_baseline:
        raise UsageError("--update makes a baseline, --no-baseline takes none", "leave one of them out")
    request = _Request(_policy(args.policy), None if args.no_baseline else _place(args))
    before = _baseline(request.baseline, missing_ok=args.update)  # before anything takes long
    recording = _recording(args)
    if before is None and args.update:
        compared(recording)  # a baseline must be one that passes could be held against
    else:
        found = triage(recording, before, request.policy)
        _print(found, args)
        if not args.update:
            return EXIT_OK if found.passed else EXIT_DIFFERENCE
    assert request.baseline is not None
    write_baseline(request.baseline, baseline_of(recording))
    print(f"{'accepted' if before else 'wrote'} {request.baseline}", file=sys.stderr)
    return EXIT_OK


def _print(found: Triage, args: argparse.Namespace) -> None:
    if args.format == "json":
        print(triage_json(found))
    else:
        print_drawn(lambda console: print_triage(console, found, everything=args.all))


def _policy(path: Path | None) -> Policy:
    default = Path(POLICY_FILE)
    if path is None and not default.is_file():
        return Policy()
    return read_policy(path or default, datetime.datetime.now(datetime.UTC).date())


def _place(args: argparse.Namespace) -> Path:
    """Where the baseline is: as asked for, else by the recording's name."""
    if args.baseline is not None:
        path: Path = args.baseline
        beside = path.with_name(path.name + BASELINE_SUFFIX)
        return path if path.exists() or path.suffix == BASELINE_SUFFIX else beside
    return FOLDER / f"{_recorded_at(args).stem}{BASELINE_SUFFIX}"


def _baseline(path: Path | None, *, missing_ok: bool) -> Recording | None:
    if path is None or (missing_ok and not path.exists()):
        return None
    if not path.exists():
        raise UsageError(
            f"there is no baseline {path}",
            "make one of what there is now with --update, or ask the policy alone with --no-baseline",
        )
    return open_recording(path)


def _recorded_at(args: argparse.Namespace) -> Path:
    """The recording's folder, there or to be made."""
    if _is_recording(args.what):
        return Path(args.what)
    from qnndbg.cli.record import DEFAULT_PRECISION
    from qnndbg.pipeline.record import Request, default_output

    output: Path | None = args.output
    return output or default_output(Request(target=args.what, precision=args.precision or DEFAULT_PRECISION))


def _is_recording(what: str) -> bool:
    """A recording, there or not; else it is a target.

    Raises:
        UsageError: it is a script, which may leave any number of recordings.
    """
    if what.endswith(".py"):
        name = Path(what).with_suffix(SUFFIX).name
        raise UsageError(
            f"{what} is a script",
            f"qnndbg record -o {name} {what}; then check what it left: qnndbg check {name}",
        )
    return Path(what).is_dir() or Path(what).suffix in (SUFFIX, BASELINE_SUFFIX)


def _recording(args: argparse.Namespace) -> Recording:
    if _is_recording(args.what):
        return open_recording(args.what)
    from qnndbg.cli.record import record_target

    recording = record_target(args.what, args, force=True)
    print(f"wrote {recording.folder}; judge it again: qnndbg check {recording.folder}", file=sys.stderr)
    return recording

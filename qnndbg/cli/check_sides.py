"""The two sides of a check: where the baseline is, and the recordings, which may have to be made first."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qnndbg.errors import LoweringError, NothingComparedError, UsageError
from qnndbg.recording.baseline import BASELINE_SUFFIX, absent, outdated
from qnndbg.recording.place import SUFFIX
from qnndbg.recording.store import Recording, open_recording

FOLDER = Path("snapshots")


def is_script(what: str) -> bool:
    """A script, which may leave any number of recordings."""
    return what.endswith(".py")


def is_recording(what: str) -> bool:
    """A recording, there or not; else it is a target."""
    return Path(what).is_dir() or Path(what).suffix in (SUFFIX, BASELINE_SUFFIX)


def numbered(path: Path, number: int) -> Path:
    """The baseline or report of one of a script's recordings; the first has the plain name."""
    return path if number == 0 else path.with_name(f"{path.stem}-{number + 1}{path.suffix}")


def first_place(args: argparse.Namespace) -> Path:
    """Where the baseline of the first recording is: as asked for, else by the recording's name."""
    if args.baseline is not None:
        path: Path = args.baseline
        beside = path.with_name(path.name + BASELINE_SUFFIX)
        return path if path.exists() or path.suffix == BASELINE_SUFFIX else beside
    return FOLDER / f"{_recorded_at(args).stem}{BASELINE_SUFFIX}"


def _recorded_at(args: argparse.Namespace) -> Path:
    """The recording's folder, there or to be made."""
    if is_recording(args.what):
        return Path(args.what)
    from qnndbg.cli.record import DEFAULT_PRECISION
    from qnndbg.pipeline.record import Request, default_output

    request = Request(
        target=args.what,
        arguments=() if is_script(args.what) else None,
        precision=args.precision or DEFAULT_PRECISION,
    )
    output: Path | None = args.output
    return output or default_output(request)


def opened(path: Path | None, what: str, *, update: bool) -> Recording | None:
    """The baseline; None if the policy alone is asked, or if there is none to compare with and one is made.

    Args:
        path: where it is, or goes to; None to ask the policy alone.
        what: is judged.
        update: a missing or outdated one is made.

    Raises:
        UsageError: it is missing, and must not be.
        RecordingError: it cannot be read.
    """
    if path is None or (update and (absent(path) or outdated(path))):
        return None
    if absent(path):
        raise UsageError(
            f"there is no baseline {path}",
            f"make one of what there is now, as in: qnndbg check --update --baseline {path} {what}; "
            "or ask the policy alone with --no-baseline",
        )
    return open_recording(path)


def recordings(args: argparse.Namespace, script_arguments: tuple[str, ...]) -> tuple[Recording, ...]:
    """The recordings to judge, made first if a target or a script is given.

    Raises:
        LoweringError: the script failed.
        NothingComparedError: it lowered nothing.
    """
    if is_script(args.what):
        return _scripted(args, script_arguments)
    if is_recording(args.what):
        return (open_recording(args.what),)
    from qnndbg.cli.record import record_target

    return (_said(record_target(args.what, args, force=True)),)


def _scripted(args: argparse.Namespace, arguments: tuple[str, ...]) -> tuple[Recording, ...]:
    from qnndbg.cli.record import record_scripted

    args.target = args.what
    with _stdout_is_stderr():
        outcome = record_scripted(args, arguments, force=True)
    made = tuple(map(_said, outcome.recordings))
    if outcome.exit_code:
        raise LoweringError(
            f"{args.what} ended with exit code {outcome.exit_code}, so what it lowered is not judged",
            f"mend it, or judge what it left: qnndbg check {made[0].folder}" if made else "mend the script",
        )
    if not made:
        raise NothingComparedError(
            f"{args.what} lowered nothing to QNN in its own process",
            f"a factory in it is checked by its name: qnndbg check {args.what}:NAME",
        )
    return made


def _said(recording: Recording) -> Recording:
    print(f"wrote {recording.folder}; judge it again: qnndbg check {recording.folder}", file=sys.stderr)
    return recording


@contextmanager
def _stdout_is_stderr() -> Iterator[None]:
    """What a script prints goes to stderr, since stdout is for the report."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)

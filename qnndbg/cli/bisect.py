"""``qnndbg bisect``: the pass in which an output is lost. Runs recorded graphs on the CPU; no QNN."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import get_args

import msgspec
from rich.console import Console
from rich.text import Text

from qnndbg.cli import Subparsers
from qnndbg.cli.events import as_lines, end_with_parent, print_event
from qnndbg.cli.output import print_drawn
from qnndbg.errors import EXIT_OK
from qnndbg.model.recording import RunnerName
from qnndbg.pipeline.bisect import LOSS_DB, Answer, Probe, Question, bisect
from qnndbg.recording.store import open_recording


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb and its arguments."""
    parser = subparsers.add_parser(
        "bisect",
        help="find the pass in which an output is lost",
        description="Find the first pass behind which an output is worse than a limit, by running the graphs "
        "of a recording on the CPU with its inputs, as few of them as it takes.",
    )
    parser.add_argument("recording", type=Path, help="the folder that qnndbg record wrote")
    parser.add_argument("--output", type=int, default=0, metavar="N", help="which output (%(default)s)")
    parser.add_argument("--method", default="forward", help="of which method (%(default)s)")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="of which inputs (%(default)s)")
    parser.add_argument(
        "--against",
        choices=get_args(RunnerName),
        default="eager",
        metavar="RUNG",
        help="whose results it is held against, as the ladder calls it (%(default)s)",
    )
    parser.add_argument(
        "--below",
        type=float,
        metavar="DB",
        help="the SQNR below which it is wrong (halfway between the first graph and the last)",
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="what to print (%(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Search, with progress on stderr, and print the answer.

    Raises:
        UsageError: there is no such output.
        RecordingError: the recording cannot be read, or a graph of it cannot be run.
    """
    if as_lines():
        end_with_parent()
    question = Question(
        output=args.output,
        method=args.method,
        sample=args.sample,
        against=args.against,
        below=args.below,
    )
    answer = bisect(open_recording(args.recording), question, _tell)
    if as_lines() and answer.found is not None:
        print_event(found=msgspec.to_builtins(answer.found))
    if args.format == "json":
        print(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
    else:
        print_drawn(lambda console: _print_text(console, answer))
    return EXIT_OK


def _tell(probe: Probe, left: int) -> None:
    if as_lines():
        print_event(probe=msgspec.to_builtins(probe), left=left)
    else:
        print(f"ran {graph_name(probe)}: {probe.sqnr_db:.1f} dB; at most {left} more", file=sys.stderr)


def graph_name(probe: Probe) -> str:
    """How a graph is called: by the pass that left it."""
    part = "" if probe.partition is None else f" #{probe.partition}"
    return f"{probe.stage}{part} {probe.name or '(as it begins)'}"


def _print_text(console: Console, answer: Answer) -> None:
    console.print(Text(verdict(answer), "bold"))
    if answer.node:
        console.print(Text(f"the numbers begin to differ at {answer.node}"))
    console.print(
        Text(
            f"\noutput {answer.output} of {answer.method}, sample {answer.sample}, against {answer.against}; "
            f"{len(answer.probes)} of {answer.graphs} graphs were run"
        )
    )
    for probe in () if as_lines() else answer.probes:  # each was told already
        mark = "  ◄" if probe == answer.found else ""
        console.print(Text(f"{probe.sqnr_db:8.1f} dB  {graph_name(probe)}{mark}"))


def verdict(answer: Answer) -> str:
    """The answer in one sentence."""
    last = answer.probes[-1]
    if answer.below is None:
        return (
            f"no pass loses more than {LOSS_DB:.0f} dB: behind the last one output {answer.output} still has "
            f"{last.sqnr_db:.1f} dB"
        )
    if answer.found is None:
        return f"behind no pass is output {answer.output} below {answer.below:.1f} dB"
    return (
        f"{graph_name(answer.found)} is the first behind which output {answer.output} is below "
        f"{answer.below:.1f} dB: it has {answer.found.sqnr_db:.1f} dB there"
    )

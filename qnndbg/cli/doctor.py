"""``qnndbg doctor``: does everything work here, and if not, what helps."""

from __future__ import annotations

import argparse

import msgspec
from rich.console import Console
from rich.text import Text

from qnndbg.cli import Subparsers
from qnndbg.cli.checks import Check, Diagnosis, diagnose
from qnndbg.errors import EXIT_OK, SdkError

STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red"}


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb and its arguments."""
    parser = subparsers.add_parser(
        "doctor",
        help="check that models can be lowered and run here",
        description="Check versions, the QNN SDK, a tiny model on the HTP emulator, the graph drawer and "
        "the terminal. Exit code 0: models can be recorded; 4: they cannot.",
    )
    parser.add_argument("--sdk", metavar="PATH", help="a QNN SDK (default: QNN_SDK_ROOT, then pip's)")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(args: argparse.Namespace) -> int:
    """Print the diagnosis."""
    console = Console(highlight=False)
    with Console(stderr=True).status("checking; a tiny model is run on the HTP emulator"):
        diagnosis = diagnose(args.sdk, console)
    if args.format == "json":
        print(msgspec.json.format(msgspec.json.encode(diagnosis), indent=2).decode())
    else:
        _print_text(diagnosis, console)
    return EXIT_OK if diagnosis.ok else SdkError.exit_code


def _print_text(diagnosis: Diagnosis, console: Console) -> None:
    for package, version in diagnosis.versions.items():
        console.print(Text(f"{package:<16} {version or '-'}"), soft_wrap=True)
    console.print()
    for check in diagnosis.checks:
        console.print(_line(check), soft_wrap=True)
    failed = sum(check.status == "failed" for check in diagnosis.checks)
    console.print()
    console.print(
        "models can be recorded here"
        if diagnosis.ok
        else f"models cannot be recorded here: {failed} of {len(diagnosis.checks)} checks failed"
    )


def _line(check: Check) -> Text:
    line = Text.assemble((f"{check.status:<8}", STYLES[check.status]), f" {check.name:<11} {check.detail}")
    return line if not check.remedy else line.append(f"\n{'':<20} remedy: {check.remedy}", "bold")

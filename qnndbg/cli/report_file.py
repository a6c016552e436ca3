"""Where a report goes: to stdout, or to a file that is there as a whole or not at all."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from qnndbg.errors import UsageError
from qnndbg.report.units import CONTROLS

FORMATS = ("text", "json", "md", "html", "csv", "junit", "sarif")
"""What a recording, a difference and a check can be written as."""
WIDTH = 120
"""Columns of a text that goes to a file."""


def add_output(parser: argparse.ArgumentParser) -> None:
    """Declare ``-o FILE``, also by the name that it has where ``-o`` is a recording."""
    parser.add_argument(
        *("-o", "--output", "--report"),
        dest="output",
        type=Path,
        metavar="FILE",
        help="write the report to a file; its folder must exist",
    )


def check_output(file: Path | None, *recordings: Path) -> None:
    """Refuse a file that cannot be written, before anything is computed.

    Raises:
        UsageError: it is a folder, its folder is missing, or it would change the recording.
    """
    if file is None:
        return
    if file.is_dir():
        raise UsageError(f"{file} is a folder", "give the report a file name, as in: -o report.html")
    if not file.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {file.parent}", f"mkdir -p {file.parent}")
    if any(file.resolve().is_relative_to(recording.resolve()) for recording in recordings):
        raise UsageError(
            f"{file} is inside the recording, which no report changes", "write it beside the recording"
        )


def write_report(text: str, file: Path | None) -> None:
    """Print a report, or write it to a file and say so on stderr."""
    text = text if text.endswith("\n") else text + "\n"
    if file is None:
        encoding = sys.stdout.encoding  # what it lacks is written as HTML, XML and Markdown have it
        sys.stdout.write(text.encode(encoding, "xmlcharrefreplace").decode(encoding))
        return
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8", newline="\n")
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    print(f"wrote {file}", file=sys.stderr)


def count(word: str) -> int:
    """A number of layers, for an argument parser."""
    if not word.isdecimal() or not int(word):
        raise argparse.ArgumentTypeError(f"{word!r} is no number of layers")
    return int(word)


def drawn(draw: Callable[[Console], None]) -> str:
    """What a report draws, as plain text of a fixed width, with control characters dropped.

    Args:
        draw: gets the console to draw on.
    """
    console = Console(file=io.StringIO(), width=WIDTH, color_system=None, force_terminal=False)
    with console.capture() as captured:
        draw(console)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().translate(CONTROLS).splitlines())

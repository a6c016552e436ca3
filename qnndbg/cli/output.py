"""Prints what a report draws, in the width, colours and encoding that the terminal has."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console

from qnndbg.report import units


def print_drawn(draw: Callable[[Console], None]) -> None:
    """Print to stdout.

    Args:
        draw: gets the console to draw on.
    """
    console = Console(highlight=False)
    # Captured, since rich would end the process with exit code 1 if the reader closes the pipe.
    with console.capture() as captured:
        draw(console)
    encoding = sys.stdout.encoding
    printed = captured.get()
    if not encoding.lower().startswith("utf"):
        printed = printed.translate(units.ASCII).encode(encoding, "replace").decode(encoding)
    for line in printed.splitlines():
        print(line.rstrip())

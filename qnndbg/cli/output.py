"""Prints what a report draws, in the width, colours and encoding that the terminal has."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

from qnndbg.report import units


class _Console(Console):
    """A console on which the texts of a stranger's recording cannot command the terminal."""

    def render(self, *args: Any, **kwargs: Any) -> Iterable[Segment]:
        """Render, with control characters dropped; rich adds those of colours later."""
        for text, style, control in super().render(*args, **kwargs):
            yield Segment(text if control else text.translate(units.CONTROLS), style, control)


def print_drawn(draw: Callable[[Console], None]) -> None:
    """Print to stdout.

    Args:
        draw: gets the console to draw on.
    """
    console = _Console(highlight=False)
    # Captured, since rich would end the process with exit code 1 if the reader closes the pipe.
    with console.capture() as captured:
        draw(console)
    encoding = sys.stdout.encoding
    printed = captured.get()
    if not encoding.lower().startswith("utf"):
        printed = printed.translate(units.ASCII).encode(encoding, "replace").decode(encoding)
    for line in printed.splitlines():
        print(line.rstrip())


def print_warning(fact: str) -> None:
    """Print a line to stderr.

    Args:
        fact: one sentence without a full stop; what it quotes may be a stranger's.
    """
    print(f"qnndbg: warning: {' '.join(fact.translate(units.CONTROLS).split())}", file=sys.stderr)

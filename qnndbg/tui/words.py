"""How texts are fitted into lines, and the signs that go with colours."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from rich.cells import cell_len
from rich.text import Text

from qnndbg.model.result import Severity
from qnndbg.report import units

SIGNS: dict[Severity, tuple[str, str]] = {
    "error": (units.BROKEN, "bad"),
    "warning": (units.MADE_HERE, "warn"),
    "note": ("·", "faint"),
}


def wrapped(text: str, width: int) -> list[str]:
    """A text in lines of at most so many cells; at least one."""
    return textwrap.wrap(text, max(width, 10)) or [""]


def clipped(text: str, cells: int, clip: Callable[[str, int], str]) -> str:
    """A text in at most so many cells, of which some letters take two.

    Args:
        text: any.
        cells: the room.
        clip: shortens a text to a number of letters.
    """
    letters, found = cells, clip(text, cells)
    while letters > 1 and cell_len(found) > cells:
        letters -= 1
        found = clip(text, letters)
    return found


def cut(text: Text, width: int) -> Text:
    """A line of at most so many cells."""
    text.truncate(width, overflow="ellipsis")
    return text

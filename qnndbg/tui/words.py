"""How texts are fitted into lines, and the signs that go with colours."""

from __future__ import annotations

import textwrap

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


def cut(text: Text, width: int) -> Text:
    """A line of at most so many cells."""
    text.truncate(width, overflow="ellipsis")
    return text

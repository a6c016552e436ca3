"""The lines of the model's code around one that a recording names, if the file is at hand.

A recording may come from a stranger: only files inside the folder that the user named are read.
"""

from __future__ import annotations

from pathlib import Path

AROUND = 2
LARGEST = 1 << 20
"""No source file of a person is larger than this many bytes."""


def lines_around(folder: Path, source: str) -> list[tuple[int, str]]:
    """The numbered lines around ``file:line``; empty if the file is not there.

    Args:
        folder: where files are looked for.
        source: as a recording has it.
    """
    name, _, number = source.rpartition(":")
    root = folder.resolve()
    path = (root / name).resolve()
    if not name or not number.isdecimal() or not path.is_relative_to(root) or not path.is_file():
        return []
    if path.stat().st_size > LARGEST:
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    at = int(number)
    return [(i, lines[i - 1]) for i in range(max(at - AROUND, 1), min(at + AROUND, len(lines)) + 1)]

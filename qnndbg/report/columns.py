"""Rows of words as aligned lines that fit a width, cut where they tell least."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from qnndbg.report import units

GAP = 2
LEAST = 5
"""A last column with less room is left out."""


def aligned(
    rows: Sequence[Sequence[str]],
    room: int,
    *,
    limits: Sequence[int | None],
    right: Sequence[int] = (),
) -> list[Text]:
    """One line a row; the last column is cut to what room is left.

    Args:
        rows: cells, as many in each row.
        room: cells of the terminal.
        limits: the widest that each column may be; None for as wide as it is.
        right: the columns that are set to the right.
    """
    if not rows:
        return []
    natural = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    sizes = [min(size, limit or size) for size, limit in zip(natural, limits, strict=True)]
    sizes[-1] = max(min(natural[-1], room - sum(sizes[:-1]) - GAP * (len(sizes) - 1)), 0)
    if sizes[-1] < min(natural[-1], LEAST):
        sizes[-1] = 0
    return [_line(row, sizes, right) for row in rows]


def _line(row: Sequence[str], sizes: list[int], right: Sequence[int]) -> Text:
    cells = []
    for i, (cell, size) in enumerate(zip(row, sizes, strict=True)):
        text = units.clip_right(cell, size) if size else ""
        cells.append(text.rjust(size) if i in right else text.ljust(size))
    return Text((" " * GAP).join(cells).rstrip(), no_wrap=True, overflow="ellipsis")

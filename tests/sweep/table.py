"""Formats the rows: the table, and the counts below it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.sweep.rows import Row

HEAD = (
    "lowering",
    "model",
    "precision",
    "coverage",
    "worst local error",
    "verdict",
    "what failed or was left out",
)
PEER = ("ExecuTorch's own", "its worst layer")


def line(row: Row, *, peer: bool) -> tuple[str, ...]:
    """One row as text."""
    said = row.why if row.status == "recorded" else f"{row.status}: {row.why}"
    columns = (
        f"{row.test}.{row.case}",
        row.model,
        row.precision,
        f"{row.compared}/{row.total}" + ("" if row.accounted or row.status != "recorded" else " UNACCOUNTED"),
        f"{row.worst} {row.worst_layer}".strip(),
        f"{row.verdict} {row.culprit}".strip(),
        "; ".join(part for part in (said, row.reasons) if part),
    )
    return (*columns, row.peer, row.peer_worst) if peer else columns


def table(rows: Iterable[Row], *, peer: bool) -> str:
    """All rows in columns, and what they add up to."""
    lines = [(*HEAD, *PEER) if peer else HEAD, *(line(row, peer=peer) for row in rows)]
    last = HEAD.index("what failed or was left out")
    widths = [max(len(cells[i]) for cells in lines) for i in range(len(lines[0]))]
    widths[last] = 0 if not peer else min(widths[last], 60)
    return "\n".join(_joined(cells, widths) for cells in lines)


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def summary(rows: Sequence[Row]) -> str:
    """Counts of all that a row says in one word."""
    recorded = [row for row in rows if row.status == "recorded"]
    reasons: Counter[str] = Counter()
    for row in recorded:
        for part in filter(None, re.split(r"; (?=\d+× )", row.reasons)):
            number, _, reason = part.partition("× ")
            reasons[reason] += int(number)
    lines = [
        f"{len({row.test for row in rows})} tests, {len(rows)} rows: {_counts(row.status for row in rows)}",
        f"recorded: {len(recorded)}, every QNN tensor accounted for in {sum(r.accounted for r in recorded)}",
        f"tensors: {sum(r.compared for r in recorded)} of {sum(r.total for r in recorded)} compared",
        *(f"    {number:5d} × {reason}" for reason, number in reasons.most_common()),
        f"verdicts: {_counts(row.verdict for row in recorded)}",
    ]
    asked = [row for row in recorded if row.peer]
    if asked:
        lines.append(f"ExecuTorch's own debugger: {_counts(_kind(row.peer) for row in asked)}")
    return "\n".join(lines)


def _counts(words: Iterable[str]) -> str:
    return ", ".join(f"{number} {word}" for word, number in Counter(words).most_common())


def _kind(peer: str) -> str:
    return peer.partition(":")[0]

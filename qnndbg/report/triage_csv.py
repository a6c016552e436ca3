"""The judgements of a check as CSV: a row each; columns as in docs/reference/diff-csv.md."""

from __future__ import annotations

from collections.abc import Callable

from qnndbg.model.triage import Blame, Judgement, Triage
from qnndbg.report.as_csv import Cell, csv_text
from qnndbg.report.diff_words import change_text

FIELDS = (
    *("subject", "where", "method", "op", "module", "source", "status", "fails"),
    *("before", "now", "unit", "limit", "said_by", "waiver"),
)
BLAME: dict[str, Callable[[Blame], Cell]] = {
    "blamed_on": lambda blame: blame.by,
    "rung": lambda blame: blame.rung,
    "changes": lambda blame: "; ".join(map(change_text, blame.changes)),
    "culprit": lambda blame: blame.culprit,
}


def triage_csv(triage: Triage) -> str:
    """All judgements that are not unchanged, those that fail first; the header alone if there is none."""
    return csv_text([*FIELDS, *BLAME], map(_row, triage.judgements))


def _row(one: Judgement) -> list[Cell]:
    blame = one.blame or Blame(by="")
    return [*(getattr(one, name) for name in FIELDS), *(value(blame) for value in BLAME.values())]

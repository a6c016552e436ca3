"""A check as Markdown for a pull request: passed or not and what fails, the rest folded away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from qnndbg.model.triage import Judgement, Triage
from qnndbg.report import units
from qnndbg.report.diff_words import change_text, page_words
from qnndbg.report.markdown import code, details, escaped, table
from qnndbg.report.standing import place
from qnndbg.report.triage_text import TITLES, arrows, blamed, cause, headline, numbers

SHOWN = 20
FOLDED = 60
"""A comment on a pull request may not be longer than 65536 characters."""


def triage_markdown(triage: Triage) -> str:
    """What a check found, as GitHub's Markdown."""
    blocks = list(_head(triage))
    failing = [one for one in triage.judgements if one.fails]
    if failing:
        blocks.append(_table(failing[:SHOWN], blamed(triage)))
    if len(failing) > SHOWN:
        rest = failing[SHOWN : SHOWN + FOLDED]
        blocks.append(details(f"{len(failing) - SHOWN} more that fail", _table(rest, blamed(triage))))
    for status, title in TITLES.items():
        found = [one for one in triage.judgements if one.status == status and not one.fails]
        if found:
            summary = f"{title}: {min(len(found), FOLDED)} of {len(found)}"
            blocks.append(details(summary, _table(found[:FOLDED], blamed(triage))))
    about = [f"- {escaped(note)}" for note in triage.notes]
    about += [f"- {escaped(change_text(change))}" for change in triage.environment]
    if about:
        blocks.append(details("Notes and environment", "\n".join(about)))
    return "\n\n".join(blocks) + "\n"


def _head(triage: Triage) -> Iterator[str]:
    sign = units.SOUND if triage.passed else units.BROKEN
    yield f"### {sign} qnndbg check: {escaped(page_words(triage.recording))}"
    kind, colon, rest = headline(triage).partition(":")
    lines = [f"**{escaped(kind)}**{colon} {escaped(rest)}"]
    lines += [f"→ {escaped(words)}" for words in arrows(triage)]
    yield "\n>\n".join(f"> {line}" for line in lines)


def _table(found: Iterable[Judgement], by: str) -> str:
    rows = [
        (
            one.status,
            one.subject,
            code(one.where if one.method == "forward" else f"{one.where} of {one.method}"),
            code(place(one.module, one.source)),
            escaped(numbers(one)),
            escaped(one.said_by + ("" if one.limit is None else f" {one.limit:g}")),
            escaped("; ".join(part for part in (cause(one, by, placed=True), one.waiver) if part)),
        )
        for one in found
    ]
    titles = ("", "what", "which", "where", "baseline → now", "limit", "why")
    return table(titles, rows, "lllllll")

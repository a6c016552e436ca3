"""The HTML of a check: passed or not, whom it is blamed on, and every judgement."""

from __future__ import annotations

from qnndbg.model.triage import Judgement, Triage
from qnndbg.report.diff_words import change_text, page_words
from qnndbg.report.html import document
from qnndbg.report.html.markup import Content, Markup, Section, card, el, section
from qnndbg.report.html.sortable import SCRIPT, Column, Row, sortable
from qnndbg.report.triage_text import TITLES, arrows, blamed, cause, headline, numbers

COLUMNS = (
    Column("status", style="status"), Column("what", style="what"), Column("which", style="tensor"),
    Column("op", style="op"), Column("module", style="module"), Column("from", style="source"),
    Column("baseline → now", style="value"), Column("limit", style="value"), Column("why", style="why"),
)  # fmt: skip


def triage_html(triage: Triage) -> str:
    """What a check found, as an HTML document."""
    parts = [_verdict(triage), _judgements(triage), _notes(triage)]
    word, tone = ("passed", "good") if triage.passed else ("regressed", "bad")
    pill = el("span", word, class_=f"pill {tone}")
    return document(page_words(triage.recording), parts, subtitle=pill, scripts=(SCRIPT,))


def _verdict(triage: Triage) -> Section:
    tone = "good" if triage.passed else "bad"
    kind, _, rest = headline(triage).partition(":")
    first = el("p", el("strong", kind, class_=f"kind {tone}"), " ", rest.strip(), class_="fact")
    lines = [el("p", el("span", "→", class_="label"), words, class_="next") for words in arrows(triage)]
    pages = [("recording", triage.recording), ("baseline", triage.baseline)]
    sides = [
        el("div", el("dt", name), el("dd", page_words(page) if page else "none: the policy alone was asked"))
        for name, page in pages
    ]
    tiles = [el("div", el("dt", status), el("dd", str(number))) for status, number in triage.counts.items()]
    return section(
        "verdict",
        "Verdict",
        card(first, lines, el("dl", sides, class_="pairs"), kind=f"verdict {tone}"),
        el("dl", tiles, class_="tiles"),
    )


def _judgements(triage: Triage) -> Section | None:
    if not triage.judgements:
        return None
    by = blamed(triage)
    rows = [_row(one, by) for one in triage.judgements]
    listed = sortable(COLUMNS, rows, caption="Judgements", kinds=TITLES)
    note = "all but what is unchanged; what fails comes first"
    return section("judgements", "Judgements", listed, note=note)


def _row(one: Judgement, by: str) -> Row:
    tone = "regressed" if one.fails else one.status
    limit = one.said_by + ("" if one.limit is None else f" {one.limit:g}")
    cells: tuple[Content, ...] = (
        el("span", one.status, class_=f"pill {tone}"),
        one.subject,
        one.where if one.method == "forward" else f"{one.where} of {one.method}",
        one.op,
        one.module,
        one.source,
        numbers(one),
        limit,
        "; ".join(part for part in (cause(one, by, placed=True), one.waiver) if part),
    )
    return Row(one.status, cells)


def _notes(triage: Triage) -> Section | None:
    lines = [*triage.notes, *map(change_text, triage.environment)]
    return section("notes", "Notes and environment", card(_list(lines))) if lines else None


def _list(lines: list[str]) -> Markup:
    return el("ul", [el("li", line) for line in lines], class_="notes")

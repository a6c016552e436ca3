"""A triage as text: passed or not, where the lowering leaves the baseline, then all judgements."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from qnndbg.model.diff import Scalar, Side
from qnndbg.model.triage import Judgement, JudgementStatus, Triage
from qnndbg.report import units
from qnndbg.report.diff_words import change_text, parted, scalar

SHOWN = 12
"""Judgements of one status; those that fail are all shown."""
TITLES: dict[JudgementStatus, str] = {
    "regressed": "Regressed",
    "missing": "Missing",
    "waived": "Waived",
    "fixed": "Fixed",
    "new": "New",
}
LABEL = 12


def print_triage(console: Console, triage: Triage, *, everything: bool = False) -> None:
    """Print what a check found.

    Args:
        console: where to; lines are folded at its width.
        triage: of the check.
        everything: leave nothing out.
    """
    sign, style = (units.SOUND, "bold green") if triage.passed else (units.BROKEN, "bold red")
    first, colon, rest = headline(triage).partition(":")
    console.print(_row(Text(sign, style), Text.assemble((first + colon, style), rest)))
    for words in arrows(triage):
        console.print(_row(Text("→", "bold"), Text(words)))
    console.print()
    for label, page in (("A  baseline", triage.baseline), ("B  recording", triage.recording)):
        if page is not None:
            console.print(Text(f"  {label:<13}", "bold").append(_page(page), "not bold"))
    for label, content in _sections(triage, everything=everything):
        console.print()
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(width=LABEL - 1)
        grid.add_row(Text(label, "bold"), content)
        console.print(grid)


def headline(triage: Triage) -> str:
    """Passed or not, and how many of each status; the part before the colon is the answer."""
    counts = ", ".join(f"{number} {status}" for status, number in triage.counts.items() if number)
    return f"{'passed' if triage.passed else 'regressed'}: {counts or 'nothing was judged'}"


def arrows(triage: Triage) -> Iterator[str]:
    """Where it leaves the baseline, whom that is blamed on, and the verdict of what failed."""
    if triage.parting is not None:
        yield f"first difference from the baseline: {parted(triage.parting)}"
    elif triage.baseline is not None:
        yield "no pass, graph or QNN graph is another one than in the baseline"
    if by := blamed(triage):
        yield f"blamed on {by}"
    if not triage.passed:
        yield f"verdict: {triage.verdict.text}"


def _page(page: Side) -> str:
    return " · ".join(word for word in (page.target, page.precision, page.soc) if word)


def _row(sign: Text, words: Text) -> RenderableType:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_row(sign, words)
    return grid


def _sections(triage: Triage, *, everything: bool) -> Iterator[tuple[str, RenderableType]]:
    for status, title in TITLES.items():
        found = [one for one in triage.judgements if one.status == status]
        if found:
            yield title, _judgements(found, everything=everything, by=blamed(triage))
    if triage.environment:
        yield "Environment", Group(*(Text(change_text(change)) for change in triage.environment))
    if triage.notes:
        yield "Notes", Group(*map(Text, triage.notes))


def _judgements(found: list[Judgement], *, everything: bool, by: str) -> RenderableType:
    groups = [[one] for one in found] if everything else _alike(found)
    shown = [group for i, group in enumerate(groups) if everything or group[0].fails or i < SHOWN]
    lines: list[Text] = []
    for group in shown:
        more = f", and {len(group) - 1} more like it" if len(group) > 1 else ""
        lines.append(Text(judged(group[0]) + more))
        lines += [Text(f"  {words}", "dim") for words in filter(None, (cause(group[0], by), group[0].waiver))]
    if len(shown) < len(groups):
        lines.append(Text(f"… {len(groups) - len(shown)} more; --all shows all", "dim"))
    return Group(*lines)


def _alike(found: list[Judgement]) -> list[list[Judgement]]:
    """Equal changes of dtype together, since one recipe makes many."""
    groups: dict[object, list[Judgement]] = {}
    for i, one in enumerate(found):
        key: object = (one.before, one.now, one.said_by) if one.subject == "dtype" else i
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def blamed(triage: Triage) -> str:
    """Whom all that fails is blamed on; empty if it is not one and the same."""
    by = {one.blame.by for one in triage.judgements if one.fails and one.blame}
    return by.pop() if len(by) == 1 else ""


def judged(one: Judgement) -> str:
    """Such as ``output 0: 39.8 → 20.4 dB (limits.drop_db 1)``."""
    where = one.where if one.method == "forward" else f"{one.where} of {one.method}"
    place = f" in {one.module}" if one.module else ""
    limit = "" if one.limit is None else f" {one.limit:g}"
    said_by = f" ({one.said_by}{limit})" if one.said_by and one.status not in ("new", "fixed") else ""
    return (
        f"{one.subject if one.subject not in where else ''} {where}{place}: {numbers(one)}{said_by}".strip()
    )


def numbers(one: Judgement) -> str:
    """Before and now."""
    values = [value for value in (one.before, one.now) if value is not None]
    if not values:
        return "not measured"
    words = [_number(value) for value in values]
    unit = f" {one.unit}" if one.unit else ""
    if len(words) == 2:
        return f"{words[0]}{unit}, as before" if words[0] == words[1] else f"{words[0]} → {words[1]}{unit}"
    return f"{'was ' if one.now is None else ''}{words[0]}{unit}"


def _number(value: Scalar) -> str:
    return units.signed(value) if isinstance(value, float) else units.dtype(scalar(value))


def cause(one: Judgement, known: str = "", *, placed: bool = False) -> str:
    """Whose change it is, and what else about the layer changed.

    Args:
        one: that was judged.
        known: whom it is blamed on, if that is said already.
        placed: the line of the code is said already.
    """
    blame = one.blame
    if blame is None:
        return ""
    words = [f"by {blame.by}"] if blame.by not in ("", known) else []
    words += [f"first rung to move: {blame.rung}"] if blame.rung and blame.rung != blame.by else []
    words += [change_text(change) for change in blame.changes]
    words += [f"culprit: {blame.culprit}"] if blame.culprit else []
    words += [one.source] if one.source and not placed else []
    return "; ".join(words)

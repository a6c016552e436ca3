"""The sources of the error and the findings, as tables."""

from __future__ import annotations

from collections import Counter

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from qnndbg.analyze import phrases
from qnndbg.analyze.phrases import culprit_name
from qnndbg.model.result import Finding, Severity, Source
from qnndbg.report import units

SHOWN_SOURCES = 4
"""Rows of each step."""
SIGNS: dict[Severity, tuple[str, str]] = {
    "error": (units.BROKEN, "bold red"),
    "warning": (units.MADE_HERE, "yellow"),
    "note": ("·", "dim"),
}


def sources_table(sources: tuple[Source, ...], *, everything: bool) -> RenderableType:
    """The places that make the error of the worst output of each step, by falling share.

    Args:
        sources: of all outputs and steps.
        everything: every output, and every source.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for rows in source_groups(sources, everything=everything):
        first = rows[0]
        of = f" of {output}" if (output := output_of(first, sources)) else ""
        table.add_row("", Text(first.step, "dim"), Text(f"share of the error{of}{_trust(first)}", "dim"))
        for source in rows:
            where = ", ".join(part for part in (source.module, source.source) if part)
            table.add_row(
                Text(units.effect(source.share), "bold"),
                Text(culprit_name(source)),
                Text.assemble(source.detail, (f"  {where}" if where else "", "dim")),
            )
    return table


def output_of(source: Source, sources: tuple[Source, ...]) -> str:
    """Which output a source is of, where there are sources of several; with method and sample alike."""
    named = {(s.method, s.sample, s.output) for s in sources}
    if len(named) < 2:
        return ""
    method = f" of {source.method}" if len({s.method for s in sources}) > 1 else ""
    sample = f" in sample {source.sample}" if len({s.sample for s in sources}) > 1 else ""
    return f"output {source.output}{method}{sample}"


def _trust(source: Source) -> str:
    """Of shares that were estimated, what they add up to: where that is all of it they can be trusted."""
    if source.measured or source.explained is None:
        return ""
    return f", estimated; all of them add up to {phrases.percent(source.explained)}"


def source_groups(sources: tuple[Source, ...], *, everything: bool) -> list[tuple[Source, ...]]:
    """The sources of each step and output; only the worst output of each step unless all are asked for."""
    groups: dict[tuple[str, str, int, int], list[Source]] = {}
    for source in sources:
        groups.setdefault((source.step, source.method, source.sample, source.output), []).append(source)
    if everything:
        return [tuple(rows) for rows in groups.values()]
    first: dict[str, tuple[Source, ...]] = {}
    for (step, *_), rows in groups.items():
        first.setdefault(step, tuple(rows[:SHOWN_SOURCES]))
    return list(first.values())


def findings_list(findings: tuple[Finding, ...], *, everything: bool) -> RenderableType:
    """Errors and warnings with what helps; notes as a count, unless all are asked for."""
    shown = [f for f in findings if everything or f.severity != "note"]
    grid = Table.grid(padding=(0, 1, 0, 0))
    for found in shown:
        sign, style = SIGNS[found.severity]
        grid.add_row(Text(sign, style), Text(found.rule, style), _finding(found))
    rest = Counter(f.rule for f in findings if f not in shown)
    if not rest:
        return grid
    rules = ", ".join(rule if count == 1 else f"{rule} ×{count}" for rule, count in sorted(rest.items()))
    notes = Text(f"{phrases.counted(rest.total(), 'note')} ({rules}): --all", "dim")
    return Group(grid, notes) if shown else notes  # a table without rows is an empty line


def _finding(found: Finding) -> RenderableType:
    lines = [Text.assemble(found.message, (f"  {found.source}" if found.source else "", "dim"))]
    if found.evidence:
        lines.append(Text(found.evidence, "dim"))
    if found.severity != "note" and found.help:
        lines.append(Text.assemble(("help: ", "bold"), found.help))
    return Group(*lines)

"""The ladder of output errors as a table: one row per rung and output."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from rich.table import Table
from rich.text import Text

from qnndbg.analyze.phrases import one_line
from qnndbg.analyze.verdict import SAME_NUMBERS_DB, STEPS, quality
from qnndbg.model.result import ErrorMetrics, Rung
from qnndbg.report import units

SHOWN_OUTPUTS = 4
"""A decoder has dozens of outputs, nearly all of them states."""
FIXED_WIDTH = 52
"""Cells that a row needs beside its bar."""
ALONE = "dB alone"
ALONE_WIDTH = 7
"""More of them where a row says what the HTP has against the rung before."""
WIDEST_BAR = 50


def ladder_table(ladder: tuple[Rung, ...], width: int, *, everything: bool) -> Table:
    """The rungs of the worst outputs, or of all.

    Args:
        ladder: rungs of every output.
        width: cells that the table may take.
        everything: show every output.
    """
    outputs = by_output(ladder)
    shown = sorted(outputs, key=lambda key: quality(outputs[key][-1].against_eager))
    if not everything:
        shown = shown[:SHOWN_OUTPUTS]
    wide = ALONE_WIDTH if legend(ladder) else 0
    bar_width = min(max(width - FIXED_WIDTH - wide, 10), WIDEST_BAR)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(width=bar_width, no_wrap=True)
    table.add_column()
    for key in (key for key in outputs if key in shown):
        if len(outputs) > 1:
            table.add_row(Text(output_title(key, ladder), "dim"))
        _add_output(table, outputs[key], bar_width, everything=everything)
    if hidden := len(outputs) - len(shown):
        table.add_row(
            Text(f"{hidden} more", "dim"), "", Text("outputs that are closer to eager: --all", "dim")
        )
    return table


def legend(ladder: tuple[Rung, ...]) -> str:
    """What the word "alone" means, if a row has it."""
    pairs = (pair for rungs in by_output(ladder).values() for pair in pairwise(rungs))
    return "; alone: against the rung before" if any(ALONE in change(*pair).plain for pair in pairs) else ""


def by_output(ladder: Iterable[Rung]) -> dict[tuple[str, int, int], list[Rung]]:
    """The rungs of each method, sample and output."""
    outputs: dict[tuple[str, int, int], list[Rung]] = {}
    for rung in ladder:
        outputs.setdefault((rung.method, rung.sample, rung.output), []).append(rung)
    return outputs


def output_title(key: tuple[str, int, int], ladder: Iterable[Rung]) -> str:
    """An output by its number, and by method and sample where there are several."""
    rungs = tuple(ladder)
    method, sample, output = key
    parts = [method] if len({rung.method for rung in rungs}) > 1 else []
    parts += [f"sample {sample}"] if len({rung.sample for rung in rungs}) > 1 else []
    return " ".join([*parts, str(output) if parts == [method] else f"output {output}"])


def _add_output(table: Table, rungs: list[Rung], bar_width: int, *, everything: bool) -> None:
    before: Rung | None = None
    for same in folded(rungs, everything=everything):
        rung = same[-1]
        error = rung.against_eager
        value = None if error is None or error.nonfinite or before is None else error.sqnr_db
        table.add_row(
            Text(rung.name if len(same) == 1 else f"{same[0].name} … {rung.name}"),
            Text(units.decibels(error), "bold") if before else Text(),
            Text("" if value is None else units.bar(value, bar_width), "cyan"),
            change(before, rung),
        )
        before = rung


def folded(rungs: list[Rung], *, everything: bool) -> list[list[Rung]]:
    """Rungs that are bit-equal to the one before together; each alone if all are shown."""
    groups: list[list[Rung]] = []
    for rung in rungs:
        if groups and _is_equal(rung) and not everything and _is_equal(groups[-1][-1]):
            groups[-1].append(rung)
        else:
            groups.append([rung])
    return groups


def _is_equal(rung: Rung) -> bool:
    return rung.against_previous is not None and not rung.against_previous.mismatched and not rung.note


def change(before: Rung | None, rung: Rung, *, alone: bool = True) -> Text:
    """What the rung did to the output: nothing, rounding, or a loss in dB; then its note.

    Args:
        before: the rung before it, if there is one.
        rung: the rung.
        alone: of the HTP, also what it has against the rung before, which the quantiser changed already.
    """
    if before is None:
        return Text("the module itself", "dim")
    note = one_line(rung.note)
    if rung.against_previous is None:
        return Text(note or "not compared", "yellow")
    step = _step(before, rung, rung.against_previous, alone=alone and _is_first_of_htp(before, rung))
    return Text.assemble(step, (f"  {note}" if note else "", "dim"))


def _is_first_of_htp(before: Rung, rung: Rung) -> bool:
    return rung.name in STEPS["backend"] and before.name not in STEPS["backend"]


def _step(before: Rung, rung: Rung, step: ErrorMetrics, *, alone: bool) -> Text:
    if not step.mismatched:
        return Text("= bit-equal", "dim")
    if quality(step) >= SAME_NUMBERS_DB:
        return Text(f"≈ equal to {units.decibels(step)} dB", "dim")
    old, new = before.against_eager, rung.against_eager
    if quality(old) >= SAME_NUMBERS_DB:
        return Text("▼ first error")
    own = units.decibels(step)
    if old is None or new is None or old.sqnr_db is None or new.sqnr_db is None:
        return Text(f"{own} dB against {before.name}" if own[-1].isdigit() else own)
    change = units.signed(new.sqnr_db - old.sqnr_db, plus=True)
    lost = change.startswith("−")
    text = Text(f"▼ {change} dB", "bold red") if lost else Text(f"  {change} dB")
    return Text.assemble(text, (f", {own} {ALONE}", "dim")) if alone else text

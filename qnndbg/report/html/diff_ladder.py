"""The ladders of both sides: the output that moved most as a plot, all of them as tables."""

from __future__ import annotations

from qnndbg.model.diff import RungDiff
from qnndbg.model.result import Rung
from qnndbg.report import units
from qnndbg.report.diff_pair import OutputPair
from qnndbg.report.diff_words import change_of, delta, shown, significant
from qnndbg.report.html.ladder import Key, plot
from qnndbg.report.html.markup import Markup, Section, card, el, table
from qnndbg.report.html.markup import section as make_section

OPEN = 4
"""Outputs whose tables are not folded away."""


def section(outputs: tuple[OutputPair, ...]) -> Section | None:
    """The plot of the output that moved most, and a table for each output."""
    if not outputs:
        return None
    ranked = sorted(outputs, key=_moved, reverse=True)
    legend = [el("li", el("i", class_=f"series{i}"), name) for i, name in enumerate(("A", "B"))]
    tables = [_table(output) for output in ranked]
    rest = el("details", el("summary", f"{len(tables) - OPEN} outputs that moved less"), tables[OPEN:])
    return make_section(
        "ladder",
        "Ladders",
        card(
            el("div", _plot(ranked[0]), class_="scroll", tabindex=0, role="region", aria_label="Plot"),
            el("ul", legend, el("li", _name(ranked[0])), class_="legend pair"),
        ),
        card(tables[:OPEN], rest if len(tables) > OPEN else None),
        note="SQNR of the outputs against eager, in dB; higher is better",
    )


def _moved(output: OutputPair) -> float:
    return max(abs(delta(rung) or 0.0) for rung in output.rungs)


def _name(output: OutputPair) -> str:
    return f"output {output.output}" + ("" if output.method == "forward" else f" of {output.method}")


def _plot(output: OutputPair) -> Markup:
    lines: dict[Key, list[Rung]] = {}
    for side in ("a", "b"):
        rungs = [_rung(rung, side) for rung in output.rungs]
        if any(rung.against_eager is not None for rung in rungs):
            lines[side.upper(), 0, output.output] = rungs
    return plot(lines, list(lines), title=f"Ladders of {_name(output)}, in A and in B", kind="pair")


def _rung(rung: RungDiff, side: str) -> Rung:
    error = getattr(rung, side)
    return Rung(name=rung.name, output=rung.output, against_eager=error, against_previous=None)


def _table(output: OutputPair) -> Markup:
    first = next((rung for rung in output.rungs if significant(rung)), None)
    rows = [
        [
            rung.name,
            units.decibels(rung.a),
            units.decibels(rung.b),
            change_of(rung),
            el("span", "first to move", class_="pill") if rung is first else None,
        ]
        for rung in filter(shown, output.rungs)
    ]
    listed = table((_name(output), "A", "B", "change", ""), rows, caption=_name(output), numeric=(1, 2, 3))
    return el("div", listed, class_="ladders")

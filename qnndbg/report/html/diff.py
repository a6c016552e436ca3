"""The HTML of a difference: same or not, where the two part, what that did, and all that differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from qnndbg.model.diff import Diff, Parting
from qnndbg.report import units
from qnndbg.report.diff_graphs import counts, folded_lines, graph_name
from qnndbg.report.diff_layers import DiffOrder
from qnndbg.report.diff_lists import fallback_lines, pass_lines, qnn_lines
from qnndbg.report.diff_pair import OutputPair, Pair, output_pairs
from qnndbg.report.diff_words import (
    headline,
    moved,
    output_words,
    page_words,
    regressed,
    scalar,
)
from qnndbg.report.html import diff_ladder, diff_layers, document
from qnndbg.report.html.markup import Content, Markup, Section, card, el, section, table
from qnndbg.report.html.sortable import SCRIPT

SHOWN_NODES = 60
"""Lines of nodes at the parting; the JSON has all."""


def diff_html(pair: Pair, *, sort: DiffOrder = "status") -> str:
    """What differs, as an HTML document.

    Args:
        pair: two recordings that were compared.
        sort: the order in which the layers are shown first.
    """
    diff = pair.diff
    outputs = output_pairs(pair)
    parts = [
        _verdict(diff, outputs),
        _parting(diff.first_parting),
        diff_ladder.section(outputs),
        diff_layers.section(diff.layers, sort),
        diff_layers.changes(diff.layers),
        _lists(
            "passes", "Passes", pass_lines(diff.passes), "that ran on one side only, or did something else"
        ),
        _graphs(diff),
        _lists("cpu", "On the CPU", fallback_lines(diff), "ops that do not run on the HTP"),
        _lists("qnn", "QNN ops", qnn_lines(diff, everything=False), "equal changes of equal ops together"),
        _program(diff),
    ]
    titles = [" · ".join((page.target, page.precision)) for page in (diff.a, diff.b)]
    title = f"{titles[0]} → {titles[1]}" if titles[0] != titles[1] else titles[0]
    return document(title, parts, subtitle=_pill(diff), scripts=(SCRIPT,))


def _pill(diff: Diff) -> Markup:
    word, tone = ("same", "good") if diff.same else ("different", "bad")
    return el("span", word, class_=f"pill {tone}")


def _verdict(diff: Diff, outputs: tuple[OutputPair, ...]) -> Section:
    """Same or not, where they part, and what that did to the numbers."""
    tone = "good" if diff.same else "bad"
    kind, _, rest = headline(diff).partition(":")
    told = [] if diff.same else [("Numbers", moved(diff)), ("Layers", regressed(diff))]
    lines = [
        el("p", el("span", label, class_="label"), words, class_="next") for label, words in told if words
    ]
    first = el("p", el("strong", kind, class_=f"kind {tone}"), " ", rest.strip(), class_="fact")
    sides = [("A", page_words(diff.a)), ("B", page_words(diff.b))]
    return section(
        "verdict",
        "Verdict",
        card(first, lines, _pairs(sides), kind=f"verdict {tone}"),
        _tiles(diff, outputs),
    )


def _tiles(diff: Diff, outputs: tuple[OutputPair, ...]) -> Markup:
    status = Counter(layer.status for layer in diff.layers)
    tiles = [
        ("layers regressed", str(status["regressed"]), f"{status['worse']} inherit more"),
        ("layers fixed", str(status["fixed"]), f"{status['better']} inherit less"),
        ("layers new", str(status["new"]), f"{status['gone']} gone"),
        ("graphs that differ", str(len(diff.graphs)), "stages' last"),
        ("QNN ops that differ", str(len(diff.qnn)), ""),
    ]
    worst = min(outputs, key=_gained, default=None)
    if worst is not None:
        a, b = units.decibels(worst.last.a), units.decibels(worst.last.b)
        value = f"{a} → {b}" if a != b else a
        tiles.insert(0, (f"output {worst.output} at {worst.last.name} against eager", value, "dB"))
    shown = [
        el("div", el("dt", label), el("dd", value, " ", el("small", unit))) for label, value, unit in tiles
    ]
    return el("dl", shown, class_="tiles")


def _gained(output: OutputPair) -> float:
    a, b = (error.sqnr_db if error else None for error in (output.last.a, output.last.b))
    return 0.0 if a is None or b is None else b - a


def _pairs(facts: list[tuple[str, str]]) -> Markup:
    return el("dl", [el("div", el("dt", name), el("dd", value)) for name, value in facts], class_="pairs")


def _parting(parting: Parting | None) -> Section | None:
    """The first place where the two are no longer the same, and how the graphs differ there."""
    if parting is None:
        return None
    words = [("stage", parting.stage), ("method", parting.method)]
    words += [] if parting.partition is None else [("partition", str(parting.partition))]
    words += [
        (f"pass in {side}", f"{run.name or 'none yet'} (event {run.index})")
        for side, run in (("A", parting.a), ("B", parting.b))
        if run is not None
    ]
    words += [("at", parting.what)] if parting.what else []
    facts = _pairs(words)
    nodes: list[Content] = []
    if parting.graph is not None:
        lines = folded_lines(parting.graph)
        rows = [
            [str(count), line.sign, el("code", line.op), line.what, line.example]
            for line, count in lines[:SHOWN_NODES]
        ]
        nodes.append(el("p", counts(parting.graph)))
        if rows:
            titles = ("nodes", "", "op", "what", "such as")
            nodes.append(table(titles, rows, caption="Nodes that differ where they part", numeric=(0,)))
        if len(lines) > SHOWN_NODES:
            nodes.append(el("p", f"{len(lines) - SHOWN_NODES} more kinds are in the JSON", class_="quiet"))
    note = "− only in A, + only in B, ~ in both and not the same"
    return section("parting", "Where they part", card(facts, nodes), note=note if nodes else "")


def _lists(name: str, title: str, lines: list[str], note: str) -> Section | None:
    if not lines:
        return None
    items = el("ul", [el("li", line) for line in lines], class_="notes")
    return section(name, title, card(items), note=note)


def _graphs(diff: Diff) -> Section | None:
    if not diff.graphs:
        return None
    rows = [[graph_name(graph), counts(graph)] for graph in diff.graphs]
    listed = table(("stage", "nodes"), rows, caption="Graphs that differ")
    return section("graphs", "Graphs", card(listed), note="the last snapshot of each stage")


def _program(diff: Diff) -> Section | None:
    """Accuracy, sizes, the outputs of one side against the other's, and the environment."""
    parts = list(_program_parts(diff))
    return section("program", "Program and environment", card(*parts)) if parts else None


def _program_parts(diff: Diff) -> Iterator[Content]:
    for title, changes in (
        ("Accuracy", diff.accuracy),
        ("Sizes", diff.sizes),
        ("Environment", diff.environment),
    ):
        if changes:
            rows = [[change.what, scalar(change.a), scalar(change.b)] for change in changes]
            yield el("h3", title)
            yield table(("", "A", "B"), rows, caption=title)
    if diff.outputs or diff.outputs_note:
        yield el("h3", "B's outputs against A's")
    if diff.outputs:
        found = [
            [
                output.runner, f"{output.method}, sample {output.sample}, output {output.output}",
                units.NONE if output.sqnr_db is None else f"{units.signed(output.sqnr_db)} dB",
                output_words(output),
            ]
            for output in diff.outputs
        ]  # fmt: skip
        yield table(("run", "which", "SQNR", ""), found, caption="Outputs", numeric=(2,))
    if diff.outputs_note:
        yield el("p", diff.outputs_note)

"""The difference of two recordings as lines, each with the place that it is about on either side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rich.text import Text

from qnndbg.analyze.diff.layers import VISIBLE_DB
from qnndbg.model.diff import Change, Diff, GraphDiff, LayerDiff, LayerSide, PassDiff, PassRun, RungDiff
from qnndbg.report import diff_graphs, diff_words, units
from qnndbg.report.diff_layers import ORDER
from qnndbg.tui.page import blank, title
from qnndbg.tui.places import GraphAt, LayerAt, PageAt, PassAt, Place
from qnndbg.tui.sheet import Line
from qnndbg.tui.state import Session
from qnndbg.tui.words import cut, wrapped

FEW = 8
"""Lines of a section unless all are asked for."""
STYLES = {"regressed": "bad", "fixed": "good", "worse": "gone", "better": "added"}
SIGNS = {"regressed": "▲", "fixed": "✓", "worse": "↑", "better": "↓", "new": "+", "gone": "−", "changed": "~"}


@dataclass(frozen=True, slots=True)
class Linked:
    """What a line shows, and where that is on both sides."""

    data: object
    a: Place | None
    b: Place | None


def lines_of(diff: Diff, a: Session, b: Session, width: int, *, everything: bool) -> Iterator[Line]:
    """All sections.

    Args:
        diff: how the two differ.
        a: side A.
        b: side B.
        width: cells of a line.
        everything: leave nothing out.
    """
    limit = None if everything else FEW
    yield from _head(diff, a, b, width)
    sections = (
        _rungs(diff, width),
        _layers(diff.layers, width, limit),
        _passes(diff.passes, a, b, width, limit),
        _graphs(diff, width, limit),
        _changes("Environment", "A → B", (*diff.environment, *diff.methods, *diff.accuracy), width),
        _changes("Sizes", "bytes of the programs, number of QNN ops", diff.sizes, width),
    )
    for section in sections:
        found = list(section)
        if found:
            yield blank()
            yield from found


def _line(text: Text, width: int, data: object, a: Place | None = None, b: Place | None = None) -> Line:
    return Line(cut(text, width), b or a, Linked(data, a, b))


def _head(diff: Diff, a: Session, b: Session, width: int) -> Iterator[Line]:
    parting = diff.first_parting
    runs = (None, None) if parting is None else (parting.a, parting.b)
    places = [_pass_place(session, run) for session, run in zip((a, b), runs, strict=True)]
    layers = PageAt("layers")
    sign, style = (units.SOUND, "good") if diff.same else (units.BROKEN, "bad")
    for i, text in enumerate(wrapped(diff_words.headline(diff), width - 2)):
        yield _line(
            Text.assemble((f"{'' if i else sign:<2}", style), (text, "strong")), width, parting, *places
        )
    for sentence in (diff_words.moved(diff), diff_words.regressed(diff)):
        for i, text in enumerate(wrapped(sentence, width - 2) if sentence else []):
            yield _line(Text(f"{'' if i else '→':<2}{text}"), width, sentence, layers, layers)
    home = PageAt("overview")
    for name, session, side in (("A", a, diff.a), ("B", b, diff.b)):
        either = (home, None) if name == "A" else (None, home)
        ends = f" · {side.failure}" if side.failure else ""
        text = f"  {name}  {session.name} · {side.target} · {side.precision} · {side.soc}{ends}"
        home = PageAt("overview")
        yield _line(Text(text, "faint"), width, side, *either)


def _pass_place(session: Session, run: PassRun | None) -> Place | None:
    if run is None:
        return None
    at = (i for i, event in enumerate(session.passes) if event.index == run.index)
    return PassAt(next(at, 0))


def _rungs(diff: Diff, width: int) -> Iterator[Line]:
    room = max(min((width - 54) // 2, 40), 6)
    for (method, output), rungs in diff_words.outputs(diff.rungs).items():
        where = f"output {output}" + (f" of {method}" if method != "forward" else "")
        yield title(f"Ladder of {where}", "SQNR against eager, in dB: A, B, change")
        first = next((rung for rung in rungs if diff_words.significant(rung)), None)
        for rung in rungs:
            yield _rung(rung, room, width, first=rung is first)


def _rung(rung: RungDiff, room: int, width: int, *, first: bool) -> Line:
    values = [diff_words.decibels(error) or 0.0 for error in (rung.a, rung.b)]
    change = diff_words.delta(rung) or 0.0
    style = "bad" if change <= -VISIBLE_DB else "good" if change >= VISIBLE_DB else "faint"
    text = Text.assemble(
        f"  {rung.name:<11}",
        f"{units.decibels(rung.a):>6} ",
        (f"{units.bar(values[0], room):<{room}}", "faint"),
        f"{units.decibels(rung.b):>7} ",
        (f"{units.bar(values[1], room):<{room}}", "bar"),
        (f" {diff_words.change_of(rung):>10}", style),
        ("  first to move" if first else "", "strong"),
    )
    return _line(text, width, rung, PageAt("layers"), PageAt("layers"))


def _layers(layers: tuple[LayerDiff, ...], width: int, limit: int | None) -> Iterator[Line]:
    if not layers:
        return
    counts = Counter(str(layer.status) for layer in layers)
    yield title("Layers", f"{diff_words.counted(counts, ORDER)}; errors A → B")
    ranked = sorted(layers, key=lambda layer: ORDER.index(layer.status))
    for layer in ranked[:limit]:
        yield _layer(layer, width)
    yield from _rest(len(ranked), limit)


def _layer(layer: LayerDiff, width: int) -> Line:
    side = layer.b or layer.a
    room = max(min(width - 62, 48), 18)
    local = [units.decibels(one.local) if one else units.NONE for one in (layer.a, layer.b)]
    reached = [units.decibels(one.accumulated) if one else units.NONE for one in (layer.a, layer.b)]
    text = Text.assemble(
        (f"{SIGNS[layer.status]} {layer.status:<9} ", STYLES.get(layer.status, "changed")),
        f"{units.clip_tensor(side.tensor if side else '', room):<{room}}",
        (f"  made {local[0]:>5} → {local[1]:<5}", STYLES.get(layer.status, "")),
        (f" all {reached[0]:>5} → {reached[1]:<5}", "faint"),
        f" {diff_words.summed(layer.changes)}",
    )
    return _line(text, width, layer, _key(layer.a), _key(layer.b))


def _key(side: LayerSide | None) -> LayerAt | None:
    return None if side is None else LayerAt(side.method, side.partition, side.tensor)


def _passes(
    passes: tuple[PassDiff, ...], a: Session, b: Session, width: int, limit: int | None
) -> Iterator[Line]:
    if not passes:
        return
    yield title("Passes", "that one side alone has, or that did something else")
    for found in passes[:limit]:
        run = found.b or found.a
        name = (run.name if run else "") or "the stage begins"
        where = f"{found.stage}{'' if found.partition is None else f' #{found.partition}'}"
        if found.moved:
            what = "runs elsewhere in the order"
        elif found.a is None or found.b is None:
            what = f"only in {'A' if found.b is None else 'B'}"
        elif found.a.error or found.b.error:
            what = f"failed in {'A' if found.a.error else 'B'}"
        else:
            what = f"changed the graph in {'A' if found.a.changed else 'B'} only"
        text = Text.assemble(("~ ", "changed"), f"{where:<14} {name:<30} ", (what, "changed"))
        yield _line(text, width, found, _pass_place(a, found.a), _pass_place(b, found.b))
    yield from _rest(len(passes), limit)


def _graphs(diff: Diff, width: int, limit: int | None) -> Iterator[Line]:
    if not diff.graphs:
        return
    yield title("Graphs", "the last of each stage")
    for graph in diff.graphs:
        at = GraphAt(graph.stage, graph.method, graph.partition)
        where = f"{graph.stage}{'' if graph.partition is None else f' #{graph.partition}'}"
        sides = (None if count is None else at for count in (graph.nodes_a, graph.nodes_b))
        yield _line(Text(f"  {where:<14} {diff_graphs.counts(graph)}"), width, graph, *sides)
        if limit is None:
            yield from _nodes(graph, width, at)


def _nodes(graph: GraphDiff, width: int, at: GraphAt) -> Iterator[Line]:
    for node in graph.changed:
        changes = "; ".join(map(diff_words.change_text, node.changes))
        text = Text.assemble(
            ("    ~ ", "changed"), f"{units.clip_tensor(node.b.name, 30):<30} ", (changes, "faint")
        )
        yield _line(text, width, node, at, at)
    for sign, style, places in (("−", "gone", graph.only_a), ("+", "added", graph.only_b)):
        for place in places:
            where = " ".join(part for part in (place.module, place.source) if part)
            text = Text.assemble((f"    {sign} {place.name} ", style), (f"{place.op} {where}", "faint"))
            yield _line(text, width, place, at, at)


def _changes(name: str, rest: str, changes: tuple[Change, ...], width: int) -> Iterator[Line]:
    if not changes:
        return
    yield title(name, rest)
    for change in changes:
        text = f"  {change.what}: {diff_words.scalar(change.a)} → {diff_words.scalar(change.b)}"
        yield _line(Text(text), width, change)


def _rest(count: int, limit: int | None) -> Iterator[Line]:
    if limit is not None and count > limit:
        yield Line(Text(f"  and {count - limit} more; o shows all", "faint"), stop=False)

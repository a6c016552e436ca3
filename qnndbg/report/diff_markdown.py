"""A difference as Markdown for a pull request: what parted and what got worse, the rest folded away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from qnndbg.analyze.diff.layers import gained
from qnndbg.model.diff import Change, Diff, LayerDiff
from qnndbg.report import units
from qnndbg.report.diff_graphs import counts, folded_lines, graph_name, short
from qnndbg.report.diff_layers import ORDER, arrow, ordered, steps
from qnndbg.report.diff_lists import fallback_lines, pass_lines, qnn_lines
from qnndbg.report.diff_pair import OutputPair, Pair, output_pairs, side_of
from qnndbg.report.diff_words import (
    change_of,
    change_text,
    counted,
    headline,
    moved,
    page_words,
    regressed,
    shown,
    significant,
    summed,
)
from qnndbg.report.markdown import code, details, escaped, table
from qnndbg.report.standing import place

SHOWN_LAYERS = 10
FOLDED_LAYERS = 40
FOLDED_LINES = 30
SHOWN_OUTPUTS = 8
"""Of what is folded away too: a comment on a pull request may not be longer than 65536 characters."""


def diff_markdown(pair: Pair) -> str:
    """What differs, as GitHub's Markdown."""
    diff = pair.diff
    blocks = list(_head(diff))
    outputs = output_pairs(pair)
    if differing := [output for output in outputs if any(rung.a != rung.b for rung in output.rungs)]:
        blocks.append(_ladder(min(differing, key=_lost)))
    if bad := [layer for layer in diff.layers if layer.status == "regressed"]:
        blocks += [f"**Regressed layers: {len(bad)}**", _layers(bad[:SHOWN_LAYERS], told=_in_full)]
    blocks += _folded_away(diff, outputs)
    return "\n\n".join(blocks) + "\n"


def _head(diff: Diff) -> Iterator[str]:
    a, b = page_words(diff.a), page_words(diff.b)
    yield f"### {units.SOUND if diff.same else units.BROKEN} qnndbg diff: {escaped(diff.b.target or 'B')}"
    kind, colon, rest = headline(diff).partition(":")
    lines = [f"**{escaped(kind)}**{colon} {escaped(rest)}"]
    lines += [f"→ {escaped(words)}" for words in (moved(diff), regressed(diff)) if words and not diff.same]
    yield "\n>\n".join(f"> {line}" for line in lines)
    yield f"A: {escaped(a)}<br>B: {escaped(b)}" if a != b else f"A and B: {escaped(a)}"
    if diff.layers:
        yield f"Layers: {counted(Counter(str(layer.status) for layer in diff.layers), ORDER)}"


def _lost(output: OutputPair) -> tuple[bool, float]:
    """By what the output gained in B, so that the worst is the least."""
    a, b = (error.sqnr_db if error else None for error in (output.last.a, output.last.b))
    return not output.missing, 0.0 if a is None or b is None else gained(a, b)


def _ladder(output: OutputPair) -> str:
    first = next((rung for rung in output.rungs if significant(rung)), None)
    rows = [
        (
            escaped(rung.name),
            units.decibels(rung.a),
            units.decibels(rung.b),
            f"{escaped(change_of(rung))}{', **first to move**' if rung is first else ''}",
        )
        for rung in output.rungs
        if shown(rung)
    ]
    name = f"output {output.output}" + ("" if output.method == "forward" else f" of {output.method}")
    return table((escaped(name), "A dB", "B dB", "change"), rows, "lrrl")


def _in_full(changes: tuple[Change, ...]) -> str:
    return "; ".join(map(change_text, changes))


def _layers(layers: Iterable[LayerDiff], *, told: Callable[[tuple[Change, ...]], str]) -> str:
    rows = []
    for layer in layers:
        side = side_of(layer)
        local = [one.local if one else None for one in (layer.a, layer.b)]
        accumulated = [one.accumulated if one else None for one in (layer.a, layer.b)]
        rows.append(
            (
                layer.status,
                code(side.tensor),
                code(short(side.op)),
                code(place(side.module, side.source)),
                arrow(layer, *map(units.decibels, local)),
                arrow(layer, *map(steps, local)),
                arrow(layer, *map(units.decibels, accumulated)),
                escaped(told(layer.changes)),
            )
        )
    titles = ("", "layer", "op", "where", "local dB", "LSB or ULP", "accumulated dB", "what else changed")
    return table(titles, rows, "llllrrrl")


def _folded_away(diff: Diff, outputs: tuple[OutputPair, ...]) -> Iterator[str]:
    parting = diff.first_parting
    if parting and parting.graph:
        lines = [_node(*line) for line in folded_lines(parting.graph)]
        yield details(f"Where they part: {escaped(counts(parting.graph))}", _list(lines))
    if len(outputs) > 1:
        shown = sorted(outputs, key=_lost)[:SHOWN_OUTPUTS]
        summary = f"Outputs: {len(shown)} of {len(outputs)}, those that lost most first"
        yield details(summary, "\n\n".join(map(_ladder, shown)))
    if rest := [layer for layer in ordered(diff.layers, "status") if layer.status != "regressed"]:
        few = rest[:FOLDED_LAYERS]
        yield details(f"Other layers that differ: {len(few)} of {len(rest)}", _layers(few, told=summed))
    sections = {
        "Passes": pass_lines(diff.passes, FOLDED_LINES),
        "Graphs": [f"{graph_name(graph)}: {counts(graph)}" for graph in diff.graphs],
        "On the CPU": fallback_lines(diff),
        "QNN ops": qnn_lines(diff, everything=False),
        "Accuracy": [change_text(change) for change in diff.accuracy],
        "Sizes": [change_text(change) for change in diff.sizes],
        "Environment": [change_text(change) for change in diff.environment],
    }
    for title, found in sections.items():
        if found:
            yield details(f"{title}: {len(found)}", _list([escaped(line) for line in found]))


def _node(line: Sequence[str], count: int) -> str:
    sign, op, what, example = line
    words = " ".join(escaped(word) for word in (what, example) if word)
    return f"{count} × {sign} {code(op)} {words}"


def _list(lines: list[str]) -> str:
    shown = [f"- {line}" for line in lines[:FOLDED_LINES]]
    more = [f"- … {len(lines) - len(shown)} more"] if len(shown) < len(lines) else []
    return "\n".join([*shown, *more])

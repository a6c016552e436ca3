"""The ladder as a plot: the SQNR of the outputs against eager, and who answers for each of the steps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, get_args

from qnndbg.analyze.verdict import SAME_NUMBERS_DB, STEPS, quality
from qnndbg.model.recording import RunnerName
from qnndbg.model.result import MAX_SQNR_DB, Rung
from qnndbg.report import units
from qnndbg.report.html.markup import Markup, Section, card, el, table
from qnndbg.report.html.markup import section as make_section
from qnndbg.report.ladder import by_output, change, legend, output_title

SHOWN = 6
"""Outputs that are drawn; a decoder has dozens."""
WIDTH, HEIGHT = 1000, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 40, 44, 40
TOP_DB = 110.0
"""All that is better is drawn here, as equal."""
DROP_DB = 1.0
"""A loss from here on is written beside its step."""

Key = tuple[str, int, int]


class _Point(NamedTuple):
    x: float
    y: float
    rung: Rung


def section(ladder: tuple[Rung, ...]) -> Section | None:
    """The plot of the worst outputs, and all rungs as a table."""
    if not ladder:
        return None
    outputs = by_output(ladder)
    shown = sorted(outputs, key=lambda key: quality(outputs[key][-1].against_eager))[:SHOWN]
    hidden = len(outputs) - len(shown)
    more = f"; {hidden} more that end closer to eager are in the table" if hidden else ""
    worst = units.decibels(outputs[shown[0]][-1].against_eager)
    drawn = plot(outputs, shown, title=f"Ladder: the worst output ends at {worst} dB against eager")
    return make_section(
        "ladder",
        "Ladder",
        card(
            el("div", drawn, class_="scroll", tabindex=0, role="region", aria_label="Plot"),
            _legend(shown, ladder) if len(shown) > 1 else None,
            el("details", el("summary", "All rungs as a table"), _table(outputs, ladder)),
        ),
        note=f"SQNR of the outputs against eager, in dB; higher is better{legend(ladder)}{more}",
    )


def _names(outputs: dict[Key, list[Rung]]) -> list[str]:
    seen = {rung.name for rungs in outputs.values() for rung in rungs}
    order = [name for name in get_args(RunnerName) if name in seen]
    return order + sorted(seen - set(order))


def plot(outputs: dict[Key, list[Rung]], shown: list[Key], *, title: str, kind: str = "") -> Markup:
    """The rungs of the outputs that are to be shown, the one that lies on top first."""
    names = _names(outputs)
    gap = (WIDTH - LEFT - RIGHT) / max(len(names), 1)
    places = {name: LEFT + gap * (i + 0.5) for i, name in enumerate(names)}
    parts = [*_bands(names, gap), *_grid(), *_names_below(places)]
    for number, key in reversed(list(enumerate(shown))):  # the worst last, on top
        points = [_Point(places[r.name], _y(r), r) for r in outputs[key] if r.against_eager is not None]
        parts += _line(points, number, alone=len(shown) == 1)
    return el(
        "svg",
        el("title", title),
        parts,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        class_=f"plot {kind}".strip(),
    )


def _y(rung: Rung) -> float:
    value = min(max(quality(rung.against_eager), 0.0), TOP_DB)
    return TOP + (1 - value / TOP_DB) * (HEIGHT - TOP - BOTTOM)


def _bands(names: list[str], gap: float) -> Iterator[Markup]:
    """Who answers for a rung, as a shaded band with a name."""
    titles = {"quantisation": "quantiser", "pass": "passes", "backend": "backend", "input": "input"}
    for number, (step, rungs) in enumerate(STEPS.items()):
        inside = [i for i, name in enumerate(names) if name in rungs]
        runs = [i for i in inside if i - 1 not in inside]  # quantisation stands among the passes
        for start in runs:
            end = next(i for i in range(start, len(names) + 1) if i not in inside)
            x, width = LEFT + gap * start, gap * (end - start)
            yield el("rect", x=f"{x + 3:.1f}", y=TOP - 26, width=f"{width - 6:.1f}", rx=6,
                     height=HEIGHT - TOP - BOTTOM + 34, class_=f"band band{number}")  # fmt: skip
            yield el("text", titles[step], x=f"{x + width / 2:.1f}", y=TOP - 11, class_="bandname")


def _grid() -> Iterator[Markup]:
    for value in (0, 20, 40, 60, 80, 100):
        y = TOP + (1 - value / TOP_DB) * (HEIGHT - TOP - BOTTOM)
        yield el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{y:.1f}", y2=f"{y:.1f}", class_="grid")
        yield el("text", str(value), x=LEFT - 10, y=f"{y + 4:.1f}", class_="tick")
    yield el("text", "equal", x=LEFT - 10, y=TOP + 4, class_="tick")


def _names_below(places: dict[str, float]) -> Iterator[Markup]:
    for name, x in places.items():
        yield el("text", name, x=f"{x:.1f}", y=HEIGHT - 10, class_="name")


def _line(points: list[_Point], number: int, *, alone: bool) -> Iterator[Markup]:
    """One output: segments, red where it loses, points, and numbers where there is but one line."""
    for a, b in pairwise(points):
        lost = _loss(a.rung, b.rung) >= DROP_DB
        place = {"x1": f"{a.x:.1f}", "y1": f"{a.y:.1f}", "x2": f"{b.x:.1f}", "y2": f"{b.y:.1f}"}
        yield el("line", **place, class_=f"series series{number}{' lost' if lost and alone else ''}")
        if lost and alone and _has_error(a.rung) and not math.isinf(_loss(a.rung, b.rung)):
            text = f"{units.signed(-_loss(a.rung, b.rung))} dB"
            x, y = (a.x + b.x) / 2, (a.y + b.y) / 2 - 10
            yield el("text", text, x=f"{x:.1f}", y=f"{y:.1f}", class_="loss")
    for before, point in zip([None, *points], points, strict=False):
        text = f"{point.rung.name}: {_told(point.rung)}"
        spot = {"cx": f"{point.x:.1f}", "cy": f"{point.y:.1f}"}
        yield el("circle", el("title", text), **spot, r=4.5, class_=f"series series{number}")
        if alone and before is not None and (before.rung.name == "eager" or abs(point.y - before.y) > 1):
            below = point.y < TOP + 20
            y = point.y + (20 if below else -12)
            yield el(
                "text",
                _told(point.rung).removesuffix(" dB"),
                x=f"{point.x:.1f}",
                y=f"{y:.1f}",
                class_="value",
            )


def _has_error(rung: Rung) -> bool:
    """Whether there is a number to lose from."""
    return quality(rung.against_eager) < SAME_NUMBERS_DB


def _loss(before: Rung, rung: Rung) -> float:
    """Decibels lost; what lies beyond the rounding of float32 counts as equal."""
    old, new = (min(quality(r.against_eager), SAME_NUMBERS_DB) for r in (before, rung))
    return math.inf if math.isinf(new) else old - new


def _told(rung: Rung) -> str:
    if rung.name == "eager" or quality(rung.against_eager) >= MAX_SQNR_DB:
        return "equal"
    text = units.decibels(rung.against_eager)
    return f"{text} dB" if text[-1].isdigit() else text


def _legend(shown: list[Key], ladder: tuple[Rung, ...]) -> Markup:
    items = [
        el("li", el("i", class_=f"series{number}"), output_title(key, ladder))
        for number, key in enumerate(shown)
    ]
    return el("ul", items, class_="legend")


def _table(outputs: dict[Key, list[Rung]], ladder: tuple[Rung, ...]) -> Markup:
    rows = [
        [output_title(key, ladder), rung.name, _told(rung), change(before, rung).plain.strip()]
        for key, rungs in outputs.items()
        for before, rung in zip([None, *rungs], rungs, strict=False)
    ]
    return table(("output", "rung", "against eager", "change"), rows, caption="Rungs", numeric=(2,))

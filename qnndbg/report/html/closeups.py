"""Close-ups of the worst layers: how their errors and values are distributed, and their dtype by stage."""

from __future__ import annotations

import math
from collections.abc import Iterator

from qnndbg.analyze.histogram import Histogram
from qnndbg.analyze.phrases import short_op
from qnndbg.analyze.timeline import Step
from qnndbg.model.result import LayerResult
from qnndbg.report import units
from qnndbg.report.html.layers import encoding_text
from qnndbg.report.html.markup import Markup, Section, card, el, table
from qnndbg.report.html.markup import section as make_section
from qnndbg.report.html.page import Closeup
from qnndbg.report.layers import lsb_or_ulp
from qnndbg.report.standing import place

WIDTH, HEIGHT = 420, 150
LEFT, RIGHT, TOP, BOTTOM = 8, 8, 10, 26
SERIES = {"accumulated": "dim", "local": "bright", "CPU": "dim", "HTP": "bright"}


def section(closeups: tuple[Closeup, ...], layers: tuple[LayerResult, ...]) -> Section | None:
    """A card for each of the worst layers."""
    if not closeups:
        return None
    unit = lsb_or_ulp(layers)
    cards = [_card(closeup, unit, opened=number < 3) for number, closeup in enumerate(closeups)]
    return make_section("closeups", "Close-ups", cards, note="the layers with the worst errors")


def _card(closeup: Closeup, unit: str, *, opened: bool) -> Markup:
    layer = closeup.layer
    numbers = (
        ("local", f"{_steps(layer, 'local', unit)} {unit}, {_db(layer, 'local')}"),
        ("accumulated", f"{_steps(layer, 'accumulated', unit)} {unit}, {_db(layer, 'accumulated')}"),
        ("× floor", units.times(layer.excess)),
        ("effect", units.effect(layer.effect)),
        ("dtype", units.dtype(layer.dtype)),
        ("shape", "×".join(map(str, layer.shape))),
    )
    head = el(
        "summary",
        el("b", short_op(layer.op) or layer.given),
        el("code", layer.tensor),
        el("span", place(layer.module, layer.source), class_="where"),
    )
    pairs = el("dl", [el("div", el("dt", name), el("dd", text)) for name, text in numbers], class_="pairs")
    find = el(
        "button", "Show in the table", type="button", class_="link needs-script", data_find=layer.tensor
    )
    plots = [
        _figure(histogram, title)
        for histogram, title in ((closeup.errors, "Error of the HTP"), (closeup.values, "Values"))
        if histogram is not None
    ]
    problem = el("p", closeup.problem, class_="quiet") if closeup.problem else None
    body = [pairs, el("div", plots, class_="figures"), problem, _timeline(closeup.steps), find]
    return card(el("details", head, body, open=opened), kind="closeup")


def _steps(layer: LayerResult, side: str, unit: str) -> str:
    return units.steps(getattr(layer, side), "LSB" if unit == "LSB" else "ULP")


def _db(layer: LayerResult, side: str) -> str:
    text = units.decibels(getattr(layer, side))
    return "bit-equal" if text == units.EQUAL else f"{text} dB" if text[-1].isdigit() else text


def _figure(histogram: Histogram, title: str) -> Markup:
    names = list(histogram.counts)
    label = f"{title}{f', in {histogram.unit}' if histogram.unit else ''}; height: logarithm of the count"
    keys = [el("li", el("i", class_=SERIES[name]), name) for name in names]
    svg = el(
        "svg",
        el("title", label),
        [_bars(histogram, name) for name in names],
        _marks(histogram),
        _axis(histogram),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        class_="plot",
    )
    tallest = max(max(counts) for counts in histogram.counts.values())
    unit = f"in {histogram.unit}; " if histogram.unit else ""
    scale = el("small", f"{unit}log scale, tallest bar {tallest}")
    caption = el("figcaption", el("b", title), scale, el("ul", keys, class_="legend"))
    return el("figure", caption, svg)


def _x(histogram: Histogram, value: float) -> float:
    low, high = histogram.edges[0], histogram.edges[-1]
    return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def _bars(histogram: Histogram, name: str) -> Markup:
    """One series; dim behind and bright, narrower, in front."""
    top = math.log1p(max(max(counts) for counts in histogram.counts.values()) or 1)
    inset = 0.5 if SERIES[name] == "dim" else 2.0
    rects = []
    for low, high, count in zip(histogram.edges, histogram.edges[1:], histogram.counts[name], strict=False):
        if not count:
            continue
        x, width = _x(histogram, low), _x(histogram, high) - _x(histogram, low)
        height = max(math.log1p(count) / top * (HEIGHT - TOP - BOTTOM), 1.5)
        text = f"{name}: {count} from {low:.4g} to {high:.4g}"
        rects.append(
            el("rect", el("title", text), x=f"{x + inset:.1f}", y=f"{HEIGHT - BOTTOM - height:.1f}",
               width=f"{max(width - 2 * inset, 1):.1f}", height=f"{height:.1f}")
        )  # fmt: skip
    return el("g", rects, class_=f"bars {SERIES[name]}")


def _marks(histogram: Histogram) -> Iterator[Markup]:
    """The ends of the encoding's range, where they lie inside of the plot."""
    for value in histogram.marks:
        if histogram.edges[0] <= value <= histogram.edges[-1]:
            x = f"{_x(histogram, value):.1f}"
            text = el("title", f"the encoding ends at {value:.4g}")
            yield el("line", text, x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM, class_="mark")


def _axis(histogram: Histogram) -> Iterator[Markup]:
    y = HEIGHT - BOTTOM
    yield el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="axis")
    low, high = histogram.edges[0], histogram.edges[-1]
    for value, anchor in ((low, "start"), ((low + high) / 2, "middle"), (high, "end")):
        shown = 0.0 if abs(value) < (high - low) * 1e-9 else value
        text = f"{shown:.3g}".replace("-", "−")
        yield el("text", text, x=f"{_x(histogram, value):.1f}", y=HEIGHT - 8, class_=f"tick {anchor}")


def _kind(step: Step) -> str:
    """The dtype as torch and QNN both could call it."""
    name = units.dtype(step.dtype)
    for long, short in (("uint", "u"), ("int", "s"), ("float", "f")):
        name = name.replace(long, short)
    return name


def _grid(step: Step) -> tuple[object, ...]:
    """The grid of an encoding, whatever integers hold it; empty if there is none."""
    encoding = step.encoding
    return () if encoding is None else (encoding.scales, encoding.zero_points, encoding.qmin, encoding.qmax)


def _timeline(steps: tuple[Step, ...]) -> Markup | None:
    """One value at every stage; what changes from one to the next is marked."""
    if not steps:
        return None
    rows = []
    before: Step | None = None
    for step in steps:
        dtype, encoding = units.dtype(step.dtype), encoding_text(step.encoding)
        changed = before is not None and _kind(before) != _kind(step)
        moved = before is not None and _grid(before) != _grid(step)
        shape = "×".join(map(str, step.shape))
        order = f" in the order {', '.join(map(str, step.axis_order))}" if step.axis_order else ""
        rows.append([
            el("span", step.stage, class_="stage"), el("code", step.name), short_op(step.op),
            el("span", dtype, class_="changed" if changed else None), f"{shape}{order}",
            el("span", encoding, class_="changed" if moved else None),
            units.sqnr(step.against_eager),
            el("span", units.sqnr(step.against_previous), class_="changed" if step.worsens else None),
        ])  # fmt: skip
        before = step
    return table(
        ("stage", "name", "op", "dtype", "shape", "encoding", "dB to eager", "dB to before"),
        rows,
        caption="Dtype, encoding and numbers (SQNR) at every stage",
    )

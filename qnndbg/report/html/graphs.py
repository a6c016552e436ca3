"""The drawn graphs, one shown at a time; the page's script zooms them and links boxes with layers."""

from __future__ import annotations

import json

from qnndbg.analyze.view import LIMITS
from qnndbg.report.html.markup import Markup, Section, card, el
from qnndbg.report.html.markup import section as make_section
from qnndbg.report.html.page import Drawing


def section(drawings: tuple[Drawing, ...]) -> Section | None:
    """All drawings, with a list to choose from and buttons to zoom."""
    if not drawings:
        return None
    options = [el("option", drawing.view.title, value=number) for number, drawing in enumerate(drawings)]
    choice = el("select", options, id="view", aria_label="Which graph") if len(options) > 1 else None
    buttons = [
        el("button", sign, type="button", data_zoom=act, aria_label=label)
        for act, sign, label in (("in", "+", "Zoom in"), ("out", "−", "Zoom out"), ("fit", "Fit", "Fit"))
    ]
    bar = el("div", choice, el("div", buttons, class_="zoom"), _scale(), class_="controls needs-script")
    frames = [_frame(drawing, number) for number, drawing in enumerate(drawings)]
    note = "each partition's last graph, coloured by local error over noise floor"
    return make_section("graphs", "Graph", card(bar, frames), _links(drawings), note=note)


def _frame(drawing: Drawing, number: int) -> Markup:
    title = drawing.view.title
    content = Markup(drawing.svg) if drawing.svg else el("p", f"not drawn: {drawing.problem}")
    return el("div", content, class_="frame", id=f"frame-{number}", tabindex=0, role="group",
              aria_label=f"{title}: {len(drawing.view.boxes)} boxes; plus, minus and arrows move it",
              hidden=number > 0)  # fmt: skip


def _scale() -> Markup:
    words = [f"≤ {LIMITS[0]:g}", *(f"≤ {limit:g}" for limit in LIMITS[1:]), f"> {LIMITS[-1]:g}"]
    steps = [el("li", el("i", class_=f"swatch heat{i}"), word) for i, word in enumerate(words)]
    return el("ul", el("li", "× floor"), steps, el("li", el("i", class_="swatch unseen"), "not measured"),
              class_="legend")  # fmt: skip


def _links(drawings: tuple[Drawing, ...]) -> Markup:
    """Of each view: the layers of each box, in the order of the boxes' ids."""
    links = [[box.layers for box in drawing.view.boxes] for drawing in drawings]
    return el(
        "script", Markup(json.dumps(links, separators=(",", ":"))), type="application/json", id="graph-data"
    )

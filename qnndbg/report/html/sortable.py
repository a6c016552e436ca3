"""A table that its reader sorts and filters; without a script it is there as a whole.

``sortable.js`` is what a page with such a table needs besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from qnndbg.report.html.markup import Content, Markup, el

SCRIPT = "sortable.js"
CUT_AT_THE_LEFT = ("module", "source")
"""Styles that are written from right to left, so that the end of a long word stays."""


@dataclass(frozen=True, slots=True)
class Number:
    """A cell of a column of numbers."""

    text: str
    value: float | None
    """What it is sorted by; None for no number, which comes last."""


class Row(NamedTuple):
    """One row; chips filter by its kind."""

    kind: str
    cells: tuple[Content | Number, ...]


class Column(NamedTuple):
    """One column."""

    title: str
    numeric: bool = False
    style: str = ""
    """A class of its cells."""


def sortable(
    columns: Sequence[Column], rows: Sequence[Row], *, caption: str, kinds: Iterable[str] = ()
) -> Markup:
    """The table with its controls.

    Args:
        columns: as many as there are cells in a row.
        rows: in the order in which they are shown first.
        caption: what it is, for those who hear it.
        kinds: of rows, each of which gets a chip if there are such rows.
    """
    classes = [_class(column) for column in columns]
    heads = [
        el("th", el("button", column.title, type="button"), scope="col", class_=name)
        for column, name in zip(columns, classes, strict=True)
    ]
    cut = [column.style in CUT_AT_THE_LEFT for column in columns]
    body = [el("tr", list(map(_cell, row.cells, classes, cut)), data_kind=row.kind) for row in rows]
    listed = el("table", el("caption", caption), el("thead", el("tr", heads)), el("tbody", body))
    more = el("div", el("button", "", type="button", data_more=True, hidden=True), class_="pager")
    return el(
        "div",
        _controls(rows, caption, kinds),
        el("div", listed, class_="scroll layertable", tabindex=0, role="region", aria_label=caption),
        more,
        data_sortable=True,
    )


def _controls(rows: Sequence[Row], caption: str, kinds: Iterable[str]) -> Markup:
    counts = [(kind, sum(row.kind == kind for row in rows)) for kind in kinds]
    chips = [
        el("button", kind or "all", " ", el("small", str(count)), type="button", data_kind_filter=kind,
           aria_pressed="false" if kind else "true")
        for kind, count in [("", len(rows)), *counts]
        if count
    ]  # fmt: skip
    search = el("input", type="search", placeholder="Filter by any word", autocomplete="off",
                aria_label=f"Filter: {caption}")  # fmt: skip
    group = el("div", chips, class_="chips", role="group", aria_label=f"Which rows: {caption}")
    return el(
        "div",
        search,
        group if counts else None,
        el("output", aria_live="polite"),
        class_="controls needs-script",
    )


def _class(column: Column) -> str | None:
    return " ".join(word for word in ("num" if column.numeric else "", column.style) if word) or None


def _cell(cell: Content | Number, class_: str | None, cut: bool) -> Markup:
    if isinstance(cell, Number):
        value = None if cell.value is None else f"{cell.value:.6g}"
        return el("td", cell.text, class_=class_, data_value=value)
    title = cell if isinstance(cell, str) and not isinstance(cell, Markup) and cell else None
    return el("td", el("bdi", cell) if cut else cell, class_=class_, title=title)

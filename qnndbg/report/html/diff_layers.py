"""The layers that differ: a table of their errors on both sides, and one of what else changed."""

from __future__ import annotations

import math
from typing import Literal

from qnndbg.analyze.diff.layers import VISIBLE_DB
from qnndbg.model.diff import LayerDiff
from qnndbg.model.result import ErrorMetrics
from qnndbg.report import units
from qnndbg.report.diff_graphs import short
from qnndbg.report.diff_layers import ORDER, DiffOrder, arrow, lost, ordered, steps
from qnndbg.report.diff_pair import side_of
from qnndbg.report.diff_words import scalar
from qnndbg.report.html.markup import Content, Section, el
from qnndbg.report.html.markup import section as make_section
from qnndbg.report.html.sortable import Column, Number, Row, sortable

COLUMNS = (
    Column("status", style="status"), Column("layer", style="tensor"), Column("op", style="op"),
    Column("module", style="module"), Column("from", style="source"),
    Column("local A", numeric=True), Column("local B", numeric=True), Column("lost dB", numeric=True),
    Column("accum. A", numeric=True), Column("accum. B", numeric=True), Column("lost dB", numeric=True),
    Column("LSB|ULP", numeric=True),
)  # fmt: skip
ENCODING_COLUMNS = (
    Column("layer", style="tensor"), Column("op", style="op"), Column("module", style="module"),
    Column("what", style="what"), Column("A", style="value"), Column("B", style="value"),
    Column("values", numeric=True),
)  # fmt: skip
KEY = (
    "regressed, fixed: its own error, on inputs that are the same for both · worse, better: what reaches it "
    "only · changed: its encoding or the like, or its errors by less than 1 dB · LSB|ULP: local, the worst "
    "element"
)


def section(layers: tuple[LayerDiff, ...], sort: DiffOrder) -> Section | None:
    """The errors of each layer that differs."""
    if not layers:
        return None
    listed = sortable(COLUMNS, [_row(la) for la in ordered(layers, sort)], caption="Layers", kinds=ORDER)
    note = "that are not the same on both sides; errors are SQNR in dB"
    return make_section("layers", "Layers", listed, el("p", KEY, class_="quiet"), note=note)


def _row(layer: LayerDiff) -> Row:
    side = side_of(layer)
    local, accumulated = _errors(layer, "local"), _errors(layer, "accumulated")
    cells: tuple[Content | Number, ...] = (
        el("span", layer.status, class_=f"pill {layer.status}"),
        side.tensor,
        short(side.op),
        side.module,
        side.source or side.created_by,
        *map(_decibels, local),
        _lost(layer, "local"),
        *map(_decibels, accumulated),
        _lost(layer, "accumulated"),
        _steps(layer, *local),
    )
    return Row(layer.status, cells)


def _decibels(error: ErrorMetrics | None) -> Number:
    return Number(units.decibels(error), error.sqnr_db if error else None)


def _steps(layer: LayerDiff, a: ErrorMetrics | None, b: ErrorMetrics | None) -> Number:
    """Of both sides, sorted by those of B."""
    last = b or a
    value = None if last is None else last.max_ulp if last.max_lsb is None else last.max_lsb
    return Number(arrow(layer, steps(a), steps(b)), value)


def _lost(layer: LayerDiff, by: Literal["local", "accumulated"]) -> Number:
    """Decibels that B lost; where one side is equal there is no number that means something."""
    value = lost(layer, by)
    if math.isinf(value):
        return Number(units.NONE, None)
    equal = [error is not None and not error.mismatched for error in _errors(layer, by)]
    if any(equal):
        return Number(units.EQUAL if all(equal) else "was equal" if equal[0] else "now equal", value)
    return Number(units.signed(value, plus=True) if abs(value) >= VISIBLE_DB else "<0.1", value)


def _errors(layer: LayerDiff, by: Literal["local", "accumulated"]) -> list[ErrorMetrics | None]:
    return [getattr(one, by) if one else None for one in (layer.a, layer.b)]


def changes(layers: tuple[LayerDiff, ...]) -> Section | None:
    """Encodings, dtypes and whatever else is not the same about a layer that both sides have."""
    rows = []
    for layer in layers:
        side = side_of(layer)
        for change in layer.changes:
            cells = (
                side.tensor, short(side.op), side.module, change.what,
                scalar(change.a), scalar(change.b), Number(str(change.count), change.count),
            )  # fmt: skip
            rows.append(Row(change.what, cells))
    if not rows:
        return None
    kinds = dict.fromkeys(row.kind for row in rows)
    listed = sortable(ENCODING_COLUMNS, rows, caption="Encodings and dtypes", kinds=kinds)
    note = "what else is not the same about a layer that both sides have"
    return make_section("encodings", "Encodings and dtypes", listed, note=note)

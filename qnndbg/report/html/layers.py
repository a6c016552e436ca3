"""The layers: data for the table that the page's script sorts, filters and pages, and its first rows."""

from __future__ import annotations

import json
import math

from qnndbg.analyze.phrases import short_op
from qnndbg.model.graph import QuantParams
from qnndbg.model.result import ErrorMetrics, LayerResult
from qnndbg.report import units
from qnndbg.report.html.markup import Markup, Section, el
from qnndbg.report.html.markup import section as make_section
from qnndbg.report.layers import Order, lsb_or_ulp, ordered
from qnndbg.report.standing import Standing, standings

Cell = str | int | float | bool | None
STATIC = 25
"""Rows that stand in the page itself, for a reader without scripts."""
DIGITS = 6
"""Significant digits of a number in the page; the CSV and the JSON hold all of them."""
FIELDS = (
    "standing", "tensor", "op", "qnn_op", "module", "source", "created_by", "method", "partition", "shape",
    "dtype", "acc_steps", "acc_db", "local_steps", "local_db", "excess", "inherited", "effect", "floor",
    "fused", "reason", "encoding", "reference_encoding", "acc_max", "local_max", "acc_cosine", "local_cosine",
)  # fmt: skip
"""Names of the cells of a row, in their order; ``page.js`` reads them from the data."""
HEADER = (
    ("standing", ""), ("tensor", "tensor"), ("op", "op"), ("module", "module"), ("dtype", "dtype"),
    ("source", "from"), ("acc_steps", "accumulated {unit}"), ("acc_db", "dB"),
    ("local_steps", "local {unit}"), ("local_db", "dB"), ("excess", "×floor"), ("effect", "effect"),
)  # fmt: skip
"""Columns of the table and their titles."""
NUMERIC = frozenset({"acc_steps", "acc_db", "local_steps", "local_db", "excess", "effect"})
SORTED_BY = {"local": "excess", "effect": "effect", "accumulated": "inherited", "order": ""}


def section(layers: tuple[LayerResult, ...], sort: Order) -> Section | None:
    """The table with its controls; without a script it shows the first rows in the order asked for."""
    if not layers:
        return None
    unit = lsb_or_ulp(layers)
    standing = standings(layers)
    rows = [row(layer, stands, unit) for layer, stands in zip(layers, standing, strict=True)]
    data = {"fields": FIELDS, "unit": unit, "sort": SORTED_BY[sort], "rows": rows}
    note = "accumulated: both sides on their own inputs; local: this op alone, on the HTP's inputs"
    return make_section(
        "layers",
        "Layers",
        _controls(layers, standing),
        _table(layers, standing, unit, sort),
        el("div", class_="pager", id="pager"),
        el("p", _key(unit), class_="quiet"),
        _embedded(data),
        note=note,
    )


def _embedded(data: object) -> Markup:
    """Data for the script; no ``<`` in it can end the element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, sort_keys=True)
    return el("script", Markup(text.replace("<", "\\u003c")), type="application/json", id="layer-data")


def row(layer: LayerResult, standing: Standing | None, unit: str) -> list[Cell]:
    """The cells of a layer, in the order of ``FIELDS``."""
    accumulated, local = layer.accumulated, layer.local
    return [
        {"made here": "made", "inherited": "inherited", None: ""}[standing],
        layer.tensor, layer.op or layer.given, layer.qnn_op, layer.module, layer.source, layer.created_by,
        layer.method, layer.partition, "×".join(map(str, layer.shape)), units.dtype(layer.dtype),
        _steps(accumulated, unit), _decibels(accumulated), _steps(local, unit), _decibels(local),
        _rounded(layer.excess), _rounded(layer.inherited), _rounded(layer.effect), _rounded(layer.floor),
        layer.fused, layer.reason, encoding_text(layer.encoding), encoding_text(layer.reference_encoding),
        *(_rounded(error.max_abs if error else None) for error in (accumulated, local)),
        *(_rounded(error.cosine if error else None) for error in (accumulated, local)),
    ]  # fmt: skip


def encoding_text(encoding: QuantParams | None) -> str:
    """An encoding in few words; empty if there is none."""
    if encoding is None:
        return ""
    more = f" (first of {len(encoding.scales)}, {encoding.scheme})" if len(encoding.scales) > 1 else ""
    scale, zero = encoding.scales[0], encoding.zero_points[0]
    return f"scale {scale:.4g}, zero point {zero}, {encoding.qmin}…{encoding.qmax} {encoding.dtype}{more}"


def _steps(error: ErrorMetrics | None, unit: str) -> Cell:
    return None if error is None else _rounded(error.max_lsb if unit == "LSB" else error.max_ulp)


def _decibels(error: ErrorMetrics | None) -> Cell:
    """A number, or the word for what is none."""
    if error is None or not error.elements:
        return None
    if not error.mismatched:
        return units.EQUAL
    return "NaN/∞" if error.nonfinite else _rounded(error.sqnr_db)


def _rounded(value: float | None) -> Cell:
    if value is None:
        return None
    return "∞" if math.isinf(value) else float(f"{value:.{DIGITS}g}")


def _controls(layers: tuple[LayerResult, ...], standing: tuple[Standing | None, ...]) -> Markup:
    counts = {
        "": ("all", len(layers)),
        "made": (f"{units.MADE_HERE} made here", standing.count("made here")),
        "inherited": (f"{units.INHERITED} inherited", standing.count("inherited")),
        "differs": ("differs", sum(_differs(layer) for layer in layers)),
        "missing": ("not compared", sum(bool(layer.reason) for layer in layers)),
    }
    chips = [
        el("button", name, " ", el("small", str(count)), type="button", data_filter=key,
           aria_pressed="true" if not key else "false")
        for key, (name, count) in counts.items()
    ]  # fmt: skip
    search = el("input", type="search", id="search", placeholder="Filter: tensor, op, module, source …",
                aria_label="Filter the layers", autocomplete="off")  # fmt: skip
    status = el("output", id="status", aria_live="polite")
    group = el("div", chips, class_="chips", role="group", aria_label="Which layers")
    return el("div", search, group, status, class_="controls needs-script")


def _differs(layer: LayerResult) -> bool:
    return any(error is not None and error.mismatched for error in (layer.accumulated, layer.local))


def _table(
    layers: tuple[LayerResult, ...], standing: tuple[Standing | None, ...], unit: str, sort: Order
) -> Markup:
    stands = dict(zip(layers, standing, strict=True))
    heads = [
        el("th", el("button", title.format(unit=unit) or "▲↓", type="button", data_sort=name,
                    aria_label="where the error is made" if not title else None),
           scope="col", class_=f"num {name}" if name in NUMERIC else name)
        for name, title in HEADER
    ]  # fmt: skip
    body = [_static(layer, stands[layer], unit) for layer in ordered(layers, sort)[:STATIC]]
    caption = el("caption", "Layers with their accumulated and local errors")
    return el("div", el("table", caption, el("thead", el("tr", heads)), el("tbody", body), id="layer-table"),
              class_="scroll layertable", tabindex=0, role="region", aria_label="Layers")  # fmt: skip


def _static(layer: LayerResult, standing: Standing | None, unit: str) -> Markup:
    texts = {
        "standing": {"made here": units.MADE_HERE, "inherited": units.INHERITED, None: ""}[standing]
        + (units.FUSED if layer.fused else ""),
        "tensor": layer.tensor,
        "op": short_op(layer.op) or layer.given,
        "module": layer.module,
        "dtype": units.dtype(layer.dtype),
        "source": layer.source or layer.created_by,
        "acc_steps": units.steps(layer.accumulated, "LSB" if unit == "LSB" else "ULP"),
        "acc_db": units.decibels(layer.accumulated),
        "local_steps": units.steps(layer.local, "LSB" if unit == "LSB" else "ULP"),
        "local_db": units.decibels(layer.local),
        "excess": units.times(layer.excess),
        "effect": units.effect(layer.effect),
    }
    cells = [el("td", texts[name], class_=f"num {name}" if name in NUMERIC else name) for name, _ in HEADER]
    return el("tr", cells, class_={"made here": "made", "inherited": "inherited", None: None}[standing])


def _key(unit: str) -> str:
    steps = "steps of the encoding" if unit == "LSB" else "units in the last place of fp16"
    return (
        f"{units.MADE_HERE} the error is made here · {units.INHERITED} it is inherited · "
        f"{units.EQUAL} bit-equal · {units.FUSED} fused with the next op · "
        f"{unit}: {steps}, of the worst element · "
        "×floor: local error over what rounding explains · "
        "effect: share of the backend's error of the worst output"
    )

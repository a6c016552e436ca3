"""The layers as CSV: one row a layer, in execution order; columns as in docs/reference/report-csv.md.

An undefined number is an empty cell; ``inf`` is an error where rounding explains none. Names come from the
recording, so control characters are dropped, and what a spreadsheet would take for a formula gets an
apostrophe in front.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence

from qnndbg.model.graph import QuantParams
from qnndbg.model.result import Comparison, ErrorMetrics, LayerResult
from qnndbg.report.layers import Order, ordered
from qnndbg.report.standing import standings
from qnndbg.report.units import CONTROLS

Cell = str | int | float | bool | None
FORMULA = tuple("=+-@\t\n＝＋－＠")  # noqa: RUF001  the wide ones are formulas to some, too

METRICS = tuple(ErrorMetrics.__struct_fields__)
COLUMNS: dict[str, Callable[[LayerResult], Cell]] = {
    "method": lambda layer: layer.method,
    "partition": lambda layer: layer.partition,
    "tensor": lambda layer: layer.tensor,
    "op": lambda layer: layer.op,
    "qnn_op": lambda layer: layer.qnn_op,
    "module": lambda layer: layer.module,
    "source": lambda layer: layer.source,
    "created_by": lambda layer: layer.created_by,
    "shape": lambda layer: "x".join(map(str, layer.shape)),
    "dtype": lambda layer: layer.dtype,
    "reference_dtype": lambda layer: layer.reference_dtype,
    "floor": lambda layer: layer.floor,
    "peak_floor": lambda layer: layer.peak_floor,
    "excess": lambda layer: layer.excess,
    "inherited": lambda layer: layer.inherited,
    "effect": lambda layer: layer.effect,
    "fused": lambda layer: layer.fused,
    "reason": lambda layer: layer.reason,
    "given": lambda layer: layer.given,
}
"""Columns between the position and those of the errors and encodings."""


def csv_report(comparison: Comparison | None, *, sort: Order = "order") -> str:
    """The layers of a comparison; the header alone if there is none.

    Args:
        comparison: None if the recording did not get that far.
        sort: order of the rows; ``position`` always counts in execution order.
    """
    return csv_text(header(), layer_rows(comparison.layers if comparison else (), sort=sort))


def layer_rows(layers: tuple[LayerResult, ...], *, sort: Order = "order") -> list[list[Cell]]:
    """The cells of each layer, under :func:`header`."""
    standing = dict(zip(layers, standings(layers), strict=True))
    position = {layer: number for number, layer in enumerate(layers)}
    return [[position[layer], *_row(layer), standing[layer]] for layer in ordered(layers, sort)]


def header() -> list[str]:
    """The names of the columns."""
    errors = [f"{side}_{metric}" for side in ("accumulated", "local") for metric in METRICS]
    encodings = [f"{prefix}{part}" for prefix in ("", "reference_") for part in ENCODING]
    return ["position", *COLUMNS, *errors, *encodings, "standing"]


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Any table as CSV, with a header and lines that end in a line feed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(cell) for cell in row] for row in rows)
    return text.getvalue()


def _row(layer: LayerResult) -> list[Cell]:
    errors = [
        None if error is None else getattr(error, metric)
        for error in (layer.accumulated, layer.local)
        for metric in METRICS
    ]
    encodings = [
        None if encoding is None else value(encoding)
        for encoding in (layer.encoding, layer.reference_encoding)
        for value in ENCODING.values()
    ]
    return [*(value(layer) for value in COLUMNS.values()), *errors, *encodings]


ENCODING: dict[str, Callable[[QuantParams], Cell]] = {
    "scheme": lambda encoding: encoding.scheme,
    "scale": lambda encoding: encoding.scales[0] if len(encoding.scales) == 1 else None,
    "zero_point": lambda encoding: encoding.zero_points[0] if len(encoding.zero_points) == 1 else None,
    "qmin": lambda encoding: encoding.qmin,
    "qmax": lambda encoding: encoding.qmax,
}
"""Of an encoding; one of several scales leaves scale and zero point empty."""


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = value.translate(CONTROLS)
        return f"'{text}" if text.startswith(FORMULA) else text
    return repr(value)

"""The layers that differ as CSV: a row each; columns as in docs/reference/diff-csv.md."""

from __future__ import annotations

from qnndbg.model.diff import Diff, LayerSide
from qnndbg.report.as_csv import METRICS, Cell, csv_text
from qnndbg.report.diff_layers import DiffOrder, ordered
from qnndbg.report.diff_words import change_text

SIDE = ("tensor", "method", "partition", "op", "qnn_op", "module", "source", "created_by", "dtype")
ERRORS = ("local", "accumulated")


def diff_csv(diff: Diff, *, sort: DiffOrder = "order") -> str:
    """The layers that differ; the header alone if none does.

    Args:
        diff: of two recordings.
        sort: order of the rows; ``position`` always counts in execution order.
    """
    position = {id(layer): number for number, layer in enumerate(diff.layers)}
    rows = (
        [
            position[id(layer)],
            layer.status,
            layer.local,
            layer.accumulated,
            "; ".join(map(change_text, layer.changes)),
            *_side(layer.a),
            *_side(layer.b),
        ]
        for layer in ordered(diff.layers, sort)
    )
    return csv_text(header(), rows)


def header() -> list[str]:
    """The names of the columns."""
    metrics = [f"{error}_{metric}" for error in ERRORS for metric in METRICS]
    sides = [f"{side}_{name}" for side in ("a", "b") for name in (*SIDE, *metrics)]
    return ["position", "status", *(f"{error}_trend" for error in ERRORS), "changes", *sides]


def _side(side: LayerSide | None) -> list[Cell]:
    if side is None:
        return [None] * (len(SIDE) + len(ERRORS) * len(METRICS))
    errors = [getattr(side, error) for error in ERRORS]
    numbers = [None if error is None else getattr(error, metric) for error in errors for metric in METRICS]
    return [*(getattr(side, name) for name in SIDE), *numbers]

"""Which layers regressed, were fixed, are new or gone, by the errors that both comparisons hold."""

from __future__ import annotations

from collections.abc import Iterator

from qnndbg.analyze.diff.nodes import encoding_changes
from qnndbg.analyze.diff.qnn import TensorId, Tensors
from qnndbg.model.diff import Change, LayerDiff, LayerSide, LayerStatus, Trend
from qnndbg.model.result import Comparison, ErrorMetrics, LayerResult

MARGIN_DB = 1.0
"""A smaller change of the SQNR is none that a person need look at."""
ROUNDING = 1.0
"""An error of up to one step, be it LSB or ULP, is that of rounding, whatever its SQNR."""
FP16_DB = 60.0
"""A half float is rounded to 11 bits, which is some 70 dB; less than this is more than rounding."""
EQUAL_DB = 100.0
"""What is closer differs by the rounding of float32 only."""
VISIBLE_DB = 0.05
"""A rung has moved if its error did by as much; less is a zero at one decimal."""
TOLERANCE = 0.01
"""Steps by which an error of one step may be measured too large."""


Rank = tuple[list[int], list[tuple[str, str, int, str, str]]]
"""Positions, and what else tells layers apart."""


def layer_diffs(a: Comparison | None, b: Comparison | None, pairs: Tensors) -> tuple[LayerDiff, ...]:
    """All layers that are not the same, in execution order.

    Args:
        a: of one side; None if it did not get that far, and then there is nothing to compare.
        b: of the other.
        pairs: which QNN tensor is which.
    """
    if a is None or b is None:
        return ()
    right = {_id(layer): (at, layer) for at, layer in enumerate(b.layers)}
    ranked: list[tuple[Rank, LayerDiff]] = []
    for at, layer in enumerate(a.layers):
        match = right.pop(pairs[_id(layer)], None) if _id(layer) in pairs else None
        diff = _diff(layer, match[1] if match else None)
        if diff:
            ranked.append((_rank((at, layer), match), diff))
    for place in right.values():
        diff = _diff(None, place[1])
        if diff:
            ranked.append((_rank(place, None), diff))
    return tuple(diff for _, diff in sorted(ranked, key=lambda item: item[0]))


def _rank(*places: tuple[int, LayerResult] | None) -> Rank:
    """By position, and the same from either side."""
    found = [place for place in places if place]
    names = sorted((side.tensor, side.method, side.partition, side.op, side.dtype) for _, side in found)
    return sorted(at for at, _ in found), names


def _id(layer: LayerResult) -> TensorId:
    return TensorId(layer.method, layer.partition, layer.tensor)


def _diff(a: LayerResult | None, b: LayerResult | None) -> LayerDiff | None:
    if a is None or b is None:
        if not _computed(a or b):
            return None
        status: LayerStatus = "new" if a is None else "gone"
        return LayerDiff(status=status, a=_side(a), b=_side(b), local="unknown", accumulated="unknown")
    if not (_computed(a) or _computed(b)):
        return None
    changes = tuple(_changes(a, b))
    if (a.accumulated, a.local) == (b.accumulated, b.local) and not changes:
        return None
    local = trend(a.local, b.local)
    accumulated = trend(a.accumulated, b.accumulated, steps=a.dtype == b.dtype)
    return LayerDiff(
        status=_status(local, accumulated),
        a=_side(a),
        b=_side(b),
        local=local,
        accumulated=accumulated,
        changes=changes,
    )


def _computed(layer: LayerResult | None) -> bool:
    """Weights and graph inputs are no layers."""
    return (
        layer is not None and not layer.given and (layer.local is not None or layer.accumulated is not None)
    )


def _status(local: Trend, accumulated: Trend) -> LayerStatus:
    if local == "worse":
        return "regressed"
    if local == "better":
        return "fixed"
    return accumulated if accumulated in ("worse", "better") else "changed"


def trend(a: ErrorMetrics | None, b: ErrorMetrics | None, *, steps: bool = True) -> Trend:
    """Whether an error grew from A to B by more than rounding and ``MARGIN_DB``.

    Args:
        a: of A.
        b: of B.
        steps: two errors that rounding explains are the same, however many decibels apart.
    """
    if a is None or b is None:
        return "same" if a is b else "unknown"
    if a.nonfinite != b.nonfinite:
        return "worse" if b.nonfinite > a.nonfinite else "better"
    if a == b or (steps and _rounding(a) and _rounding(b)):
        return "same"
    if a.sqnr_db is not None and b.sqnr_db is not None:
        more = gained(a.sqnr_db, b.sqnr_db)
        return "same" if abs(more) < MARGIN_DB else "better" if more > 0 else "worse"
    if a.max_abs is None or b.max_abs is None or a.max_abs == b.max_abs:
        return "same" if a.max_abs == b.max_abs else "unknown"
    return "worse" if b.max_abs > a.max_abs else "better"


def gained(a: float, b: float) -> float:
    """Decibels that B has over A; what is closer than float32 rounds is equal."""
    return min(b, EQUAL_DB) - min(a, EQUAL_DB)


def within_rounding(a: ErrorMetrics | None, b: ErrorMetrics | None) -> bool:
    """Two errors may be of one value, but for the rounding of float32 in what it is held against.

    That moves an error, as a share of the signal, by no more than its own share (the triangle inequality).
    """
    if a is None or b is None or a == b:
        return a == b
    if a.sqnr_db is None or b.sqnr_db is None or a.nonfinite != b.nonfinite:
        return False
    return abs(_share(a.sqnr_db) - _share(b.sqnr_db)) <= _share(EQUAL_DB)


def _share(decibels: float) -> float:
    return float(10 ** (-decibels / 20))


def _rounding(error: ErrorMetrics) -> bool:
    if not error.mismatched:
        return True
    if error.max_lsb is not None:
        return error.max_lsb <= ROUNDING + TOLERANCE
    small = error.max_ulp is not None and error.max_ulp <= ROUNDING + TOLERANCE
    return small or (error.max_ulp is not None and (error.sqnr_db or 0.0) >= FP16_DB)


def _changes(a: LayerResult, b: LayerResult) -> Iterator[Change]:
    for what in ("op", "qnn_op", "dtype", "reference_dtype", "reason"):
        left, right = getattr(a, what), getattr(b, what)
        if left != right:
            yield Change(what=what.replace("_", " "), a=left, b=right)
    if a.shape != b.shape:
        yield Change(what="shape", a=str(list(a.shape)), b=str(list(b.shape)))
    yield from encoding_changes(a.encoding, b.encoding)


def _side(layer: LayerResult | None) -> LayerSide | None:
    if layer is None:
        return None
    return LayerSide(
        tensor=layer.tensor,
        method=layer.method,
        partition=layer.partition,
        op=layer.op,
        qnn_op=layer.qnn_op,
        module=layer.module,
        source=layer.source,
        created_by=layer.created_by,
        dtype=layer.dtype,
        accumulated=layer.accumulated,
        local=layer.local,
    )

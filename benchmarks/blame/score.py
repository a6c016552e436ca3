"""Scores verdicts against known answers, and says it in a few lines of text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.blame.answer import Answer, class_is_right, culprit_is_right, op_is_right
from benchmarks.blame.peer import Said
from qnndbg.model.result import Comparison, ErrorMetrics, LayerResult

NUMERIC = frozenset({"backend", "format", "amplification", "input", "dtype", "pass", "quantisation"})
"""Classes of faults that spoil numbers."""
Error = Literal["accumulated", "local"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A case, its answer and its verdict."""

    name: str
    family: str
    answer: Answer
    comparison: Comparison
    peer: Said | None = None
    """What ExecuTorch's debugger says, if it was asked."""

    @property
    def right_class(self) -> bool:
        """Whether the class is right."""
        return class_is_right(self.answer, self.comparison.verdict)

    @property
    def right_culprit(self) -> bool:
        """Whether the culprit is right, whatever the class is."""
        return culprit_is_right(self.answer, self.comparison)

    @property
    def right(self) -> bool:
        """Whether both are."""
        return self.right_class and self.right_culprit

    @property
    def truth(self) -> str:
        """The class that it has."""
        return self.answer.kinds[0]


def worst_layer(comparison: Comparison, error: Error) -> LayerResult | None:
    """The layer with the least SQNR."""
    layers = [layer for layer in comparison.layers if getattr(layer, error) is not None]
    return min(layers, key=lambda layer: _decibels(getattr(layer, error)), default=None)


def _decibels(error: ErrorMetrics) -> float:
    if not error.mismatched:
        return math.inf
    return -math.inf if error.nonfinite or error.sqnr_db is None else error.sqnr_db


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """All that is to be said of a run."""
    for row in rows:
        if not row.right:
            yield from _wrong(row)
    yield ""
    yield from _confusion(rows)
    yield ""
    yield from _families(rows)
    yield ""
    yield from _contrast(rows)
    yield from _peers(rows)
    clean = [row for row in rows if row.truth == "clean"]
    spoken = [row for row in clean if any(f.severity != "note" for f in row.comparison.findings)]
    yield f"clean cases with a finding of a warning or more: {len(spoken)} of {len(clean)}"
    for row in spoken:
        said = next(f for f in row.comparison.findings if f.severity != "note")
        yield f"  {row.name}: {said.rule} at {said.where}: {said.message}"


def _wrong(row: Row) -> Iterator[str]:
    missing = " and ".join(
        what for what, right in (("class", row.right_class), ("culprit", row.right_culprit)) if not right
    )
    rules = ", ".join(row.answer.culprits)
    also = f" and {', '.join(row.answer.touched)}" if row.answer.touched else ""
    yield f"wrong {missing}: {row.name}: {row.truth}{f' ({rules}{also})' if rules else ''}: {row.answer.note}"
    yield f"    {row.comparison.verdict.text}"


def _confusion(rows: Sequence[Row]) -> Iterator[str]:
    """Classes, truth by verdict."""
    counts = Counter((row.truth, row.comparison.verdict.kind) for row in rows)
    said = sorted({kind for _, kind in counts})
    width = max(len(kind) for kind in said) + 2
    yield "truth \\ verdict  " + "".join(kind.rjust(width) for kind in said)
    for truth in sorted({truth for truth, _ in counts}):
        cells = "".join(
            (str(counts[truth, kind]) if counts[truth, kind] else ".").rjust(width) for kind in said
        )
        yield truth.ljust(17) + cells


def _families(rows: Sequence[Row]) -> Iterator[str]:
    families = sorted({row.family for row in rows})
    if len(families) > 1:
        for family in families:
            yield _shares(family, [row for row in rows if row.family == family])
    yield _shares("all", rows)


def _shares(what: str, rows: Sequence[Row]) -> str:
    count = len(rows)
    columns = (
        ("class", sum(row.right_class for row in rows)),
        ("culprit", sum(row.right_culprit for row in rows)),
        ("both", sum(row.right for row in rows)),
    )
    return what.ljust(24) + "   ".join(f"{name} {n:3} of {count:3} ({n / count:4.0%})" for name, n in columns)


def _contrast(rows: Sequence[Row]) -> Iterator[str]:
    """What is right if the worst layer is named instead, where a layer can be the answer."""
    faults = [row for row in rows if row.truth in NUMERIC and _names_op(row.answer)]
    yield f"culprit of {len(faults)} faults at an op: {_right(row.right_culprit for row in faults)}"
    errors: tuple[Error, ...] = ("accumulated", "local")
    for error in errors:
        worst = [(row, worst_layer(row.comparison, error)) for row in faults]
        hits = _right(layer is not None and op_is_right(row.answer, [layer.op]) for row, layer in worst)
        yield f"  by the worst layer, {error} SQNR: {hits}"


def _peers(rows: Sequence[Row]) -> Iterator[str]:
    """The same of ExecuTorch's debugger, on the faults of each family that it was asked about."""
    asked = [row for row in rows if row.peer is not None and row.truth in NUMERIC]
    if not asked:
        return
    spoke = [row for row in asked if row.peer is not None and not row.peer.error]
    hits = [row for row in spoke if row.peer is not None and op_is_right(row.answer, row.peer.ops)]
    yield (
        f"ExecuTorch's debugger, asked about {len(asked)} faults: {len(spoke)} compared, "
        f"{len(hits)} culprits right by its worst layer"
    )
    for error, count in Counter(row.peer.error for row in asked if row.peer and row.peer.error).items():
        yield f"  {count} times: {error}"


def _names_op(answer: Answer) -> bool:
    return any(rule.startswith("op:") for rule in answer.culprits)


def _right(flags: Iterator[bool]) -> str:
    return f"{sum(flags)} right"

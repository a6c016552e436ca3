"""One row per lowering, as the table and the CSV have it, and the check that its recording is whole."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from qnndbg.model.recording import Manifest
from qnndbg.model.result import Comparison, ErrorMetrics, LayerResult
from qnndbg.recording.store import Recording

LOG = "worker.log"
"""In the folder of all recordings: what upstream, ExecuTorch and QNN print."""
ETRECORD = ".etrecord"
"""Suffix of what ExecuTorch's own debugger reads, beside the recording."""

Status = Literal["recorded", "upstream failed", "qnndbg failed", "crashed", "skipped", "nothing lowered"]


class Row(Struct, frozen=True, kw_only=True):
    """What became of one lowering of one test; of a whole test where nothing was lowered."""

    test: str
    """As ``float/abs``."""
    case: int = 0
    """Which lowering of the test, counted from 0."""
    status: Status
    model: str = ""
    precision: str = ""
    compared: int = 0
    total: int = 0
    accounted: bool = False
    """Each QNN tensor was compared or has a reason, by a count that the comparison has no part in."""
    worst: str = ""
    """The worst local error, in LSB or dB."""
    worst_layer: str = ""
    verdict: str = ""
    culprit: str = ""
    reasons: str = ""
    """Why tensors were not compared, with their numbers."""
    why: str = ""
    """What failed, or what the recording notes."""
    seconds: float = 0.0
    recording: str = ""
    """Below the folder of all recordings."""
    peer: str = ""
    """``works``, or the error of ExecuTorch's own debugger."""
    peer_compared: int = 0
    peer_worst: str = ""
    """The op that it names by SQNR."""


def row_with_recording(row: Row, recording: Recording) -> Row:
    """The row with what a finished recording says."""
    manifest, comparison = recording.manifest, recording.comparison()
    row = replace(
        row,
        precision=manifest.precision,
        why="; ".join(part for part in (row.why, *_said(manifest)) if part),
    )
    if comparison is None:
        return row
    coverage = comparison.coverage
    worst, layer = _worst(comparison.layers)
    return replace(
        row,
        status="recorded",
        compared=coverage.compared,
        total=coverage.total,
        accounted=accounted(recording, comparison),
        worst=worst,
        worst_layer=layer,
        verdict=comparison.verdict.kind,
        culprit=comparison.verdict.culprit,
        reasons="; ".join(f"{n}× {reason}" for reason, n in sorted(coverage.reasons.items())),
    )


def accounted(recording: Recording, comparison: Comparison) -> bool:
    """Whether each tensor of the QNN graphs is in the comparison once, with an error or with a reason."""
    tensors = sorted((g.method, g.partition, t.name) for g in recording.qnn for t in g.tensors)
    layers = sorted((x.method, x.partition, x.tensor) for x in comparison.layers)
    computed = sum(len({o for op in g.ops for o in op.outputs}) for g in recording.qnn)
    coverage = comparison.coverage
    held = sum(bool(x.given) and not x.reason for x in comparison.layers)
    silent = [x for x in comparison.layers if not (x.reason or x.accumulated or x.local)]
    unknown = [x for x in comparison.layers if x.reason.endswith("no reason was noted")]
    return (
        tensors == layers
        and coverage.total == computed == coverage.compared + sum(coverage.reasons.values())
        and sum(coverage.given.values()) + held == len(tensors) - computed
        and not silent
        and not unknown
    )


def _said(manifest: Manifest) -> tuple[str, ...]:
    failure = () if manifest.failure is None else (manifest.failure.error,)
    return (*failure, *manifest.notes)


def _worst(layers: Iterable[LayerResult]) -> tuple[str, str]:
    """The largest error in steps; where no tensor has any, the lowest SQNR."""
    known = [(x.local, x.tensor) for x in layers if x.local is not None]
    wrong = [(error, tensor) for error, tensor in known if error.mismatched]
    if not wrong:
        return ("exact" if known else "", "")
    steps = [(error.max_lsb, tensor) for error, tensor in wrong if error.max_lsb is not None]
    if steps:
        lsb, tensor = max(steps)
        return f"{lsb:.3g} LSB", tensor
    sqnr, tensor = min((_sqnr(error), tensor) for error, tensor in wrong)
    return f"{sqnr:.1f} dB", tensor


def _sqnr(error: ErrorMetrics) -> float:
    """Minus infinity where there is no signal, or where it turns non-finite."""
    return -math.inf if error.nonfinite or error.sqnr_db is None else error.sqnr_db


def first_line(error: BaseException) -> str:
    """The class of an error and the first line of what it says."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"[:300]


def read_csv(path: Path) -> list[Row]:
    """The rows of earlier runs; none if there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [_row_from_text(line) for line in csv.DictReader(file)]


def _row_from_text(line: dict[str, str]) -> Row:
    return msgspec.convert({**line, "accounted": line["accounted"] == "True"}, Row, strict=False)


def write_csv(path: Path, rows: Iterable[Row]) -> None:
    """Replace the file, in one step: it is read again to go on from."""
    scratch = path.with_suffix(".partial")
    with scratch.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=Row.__struct_fields__)
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    scratch.replace(path)

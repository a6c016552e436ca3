"""The report as JSON: one object, every field always present, null where a value is undefined.

Its schema is ``report.schema.json``, which :mod:`qnndbg.report.json_schema` makes from the types. The same
recording gives the same bytes: keys are sorted, and neither a clock nor a path of the machine
that recorded goes in.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import msgspec

from qnndbg.analyze.verdict import empty_comparison
from qnndbg.model.layer_ladder import LayerLadder
from qnndbg.model.recording import Manifest, PassEvent
from qnndbg.model.result import Comparison, ErrorMetrics, LayerResult
from qnndbg.report.layers import Order, ordered
from qnndbg.report.standing import standings

REPORT_VERSION = 1
"""Raised when a field goes away or changes its meaning; a field that is added leaves it as it is."""

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def json_report(
    manifest: Manifest,
    comparison: Comparison | None,
    passes: tuple[PassEvent, ...],
    *,
    sort: Order = "order",
    layer_ladders: tuple[LayerLadder, ...] = (),
) -> str:
    """What a recording says, as a JSON object in text; the arguments are those of the text report."""
    answer = comparison or empty_comparison()
    report = {
        "report_version": REPORT_VERSION,
        "schema": manifest.schema,
        "target": manifest.target,
        "precision": manifest.precision,
        "soc": manifest.soc,
        "complete": manifest.complete,
        "failure": _plain(manifest.failure),
        "verdict": _plain(answer.verdict),
        "ladder": _plain(answer.ladder),
        "layers": _layers(answer.layers, sort),
        "layer_ladders": _plain(layer_ladders),
        "sources": _plain(answer.sources),
        "findings": _plain(answer.findings),
        "coverage": {**_fields(answer.coverage), "share": answer.coverage.share},
        "accuracy": _plain(manifest.accuracy),
        "inputs": _plain(manifest.inputs),
        "methods": _plain(manifest.methods),
        "notes": _plain(manifest.notes),
        "passes": _passes(passes),
        "environment": _plain(manifest.environment),
    }
    return json.dumps(report, indent=2, sort_keys=True, allow_nan=False)


def _layers(layers: tuple[LayerResult, ...], sort: Order) -> list[Json]:
    standing = dict(zip(layers, standings(layers), strict=True))
    rows: list[Json] = []
    for layer in ordered(layers, sort):
        errors = {name: _error(getattr(layer, name)) for name in ("accumulated", "local")}
        excess = {"excess": _finite(layer.excess), "inherited": _finite(layer.inherited)}
        rows.append({**_fields(layer), **errors, **excess, "standing": standing[layer]})
    return rows


def _finite(value: float | None) -> float | None:
    """JSON has no infinity; an error without a floor is told by ``standing``."""
    return None if value is None or math.isinf(value) else value


def _error(error: ErrorMetrics | None) -> Json:
    """The metrics; all null where nothing was compared, so that a reader can always look inside."""
    return dict.fromkeys(ErrorMetrics.__struct_fields__) if error is None else _plain(error)


def _passes(passes: tuple[PassEvent, ...]) -> dict[str, Json]:
    """Per stage: how many passes ran, changed the graph and said they did; which changed it or failed."""
    runs = [event for event in passes if event.name]
    summary: dict[str, Json] = {}
    for stage in dict.fromkeys(event.stage for event in runs):
        events = [event for event in runs if event.stage == stage]
        summary[stage] = {
            "run": len(events),
            "changed": [event.name for event in events if event.changed],
            "claimed": sum(event.claimed_modified is True for event in events),
            "failed": {event.name: event.error for event in events if event.error},
        }
    return summary


def _plain(value: object) -> Json:
    """Structs to objects with all their fields; msgspec would leave out those with a default."""
    if isinstance(value, msgspec.Struct):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"no JSON for {type(value).__name__}")


def _fields(struct: msgspec.Struct) -> dict[str, Json]:
    return {name: _plain(getattr(struct, name)) for name in struct.__struct_fields__}

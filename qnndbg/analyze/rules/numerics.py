"""QD1xx: the numbers. A source of a wrong output is an error; one that does no harm here is a note."""

from __future__ import annotations

from collections.abc import Iterator

from qnndbg.analyze.lost import LOST_DB, LostParts
from qnndbg.analyze.phrases import culprit_name, in_times, percent, short_op
from qnndbg.analyze.rules.catalog import CAUSE_RULES
from qnndbg.analyze.rules.context import Context, finding
from qnndbg.analyze.verdict import sources
from qnndbg.model.result import Finding, LayerResult, Severity, Source

CULPABLE = 0.2
"""A source that makes less than this share of a wrong output is no error by itself."""


def find(context: Context) -> Iterator[Finding]:
    """Sources by their cause, ops above their noise floor, what is not finite, and fused clips."""
    worst: dict[tuple[str, str], Source] = {}
    for source in sorted(context.evidence.sources, key=lambda source: not _is_error(context, source)):
        worst.setdefault((source.method, source.name), source)
    for source in worst.values():
        yield _of_source(context, source)
    for layer in context.evidence.layers:
        if layer.fused and (layer.method, layer.tensor) not in worst:
            yield _fused(layer)
        if layer.local is not None and layer.local.nonfinite:
            yield _not_finite(layer)
    yield from (_lost(part) for part in context.evidence.lost)
    for layer in sources(context.evidence.layers):
        if (layer.method, layer.tensor) not in worst:
            yield _above_floor(layer)


def _is_error(context: Context, source: Source) -> bool:
    wrong = (source.step, source.method, source.sample, source.output) in context.split_faults
    return wrong and source.share >= CULPABLE  # a negative share makes up for others


def _of_source(context: Context, source: Source) -> Finding:
    severity: Severity = "error" if _is_error(context, source) else "note"
    share = percent(source.share, 1)
    sample = f" in sample {source.sample}" if source.sample else ""
    return finding(
        CAUSE_RULES[source.cause],
        severity,
        source.name,
        f"{culprit_name(source)}: {source.detail}",
        evidence=f"{share} of the error of output {source.output}{sample} in the step {source.step}",
        method=source.method,
        module=source.module,
        source=source.source,
    )


def _above_floor(layer: LayerResult) -> Finding:
    times = (
        "rounding explains none of it"
        if not layer.floor
        else f"{in_times(layer.excess or 0.0)} its noise floor"
    )
    what = f"{short_op(layer.op)} errs by more than rounding, with little effect on any output"
    if layer.given:
        what = f"the HTP does not hold this {layer.given} as it is, with little effect on any output"
    return finding(
        "QD114" if layer.given else "QD103",
        "note",
        layer.tensor,
        what,
        evidence=times,
        method=layer.method,
        module=layer.module,
        source=layer.source,
    )


def _lost(part: LostParts) -> Finding:
    sample = f" in sample {part.sample}" if part.sample else ""
    return finding(
        "QD115",
        "note",
        f"output {part.output}",
        f"{part.what} of output {part.output} are more error than signal",
        evidence=f"each has less than {LOST_DB:.0f} dB against eager{sample}",
        method=part.method,
    )


def _fused(layer: LayerResult) -> Finding:
    return finding(
        "QD113",
        "note",
        layer.tensor,
        f"the HTP fuses {short_op(layer.op)} with the op behind it and does not clip between them",
        method=layer.method,
        module=layer.module,
        source=layer.source,
    )


def _not_finite(layer: LayerResult) -> Finding:
    assert layer.local is not None
    what = short_op(layer.op) or f"this {layer.given}"
    return finding(
        "QD112",
        "note",
        layer.tensor,
        f"{layer.local.nonfinite} elements of {what} are not finite on the CPU or the HTP",
        method=layer.method,
        module=layer.module,
        source=layer.source,
    )

"""What got worse, as findings: of a difference, and of a check. docs/reference/regressions.md has each rule.

They are no rules of a recording, which :mod:`qnndbg.analyze.rules` has: they tell what changed, not what is.
"""

from __future__ import annotations

from collections.abc import Iterator

from qnndbg.analyze.rules.catalog import Rule
from qnndbg.model.diff import FallbackDiff, LayerDiff, Parting, Place
from qnndbg.model.result import Finding, Severity
from qnndbg.model.triage import Judgement, Triage
from qnndbg.report import units
from qnndbg.report.diff_pair import OutputPair, Pair, output_pairs, side_of
from qnndbg.report.diff_words import change_of, change_text, parted
from qnndbg.report.triage_text import cause, numbers

REGRESSIONS = (
    Rule("QD601", "an output got worse", "See which rung moved first, and what changed there."),
    Rule("QD602", "a layer got worse", "Look at what else about it changed, first at its encoding."),
    Rule("QD603", "an op went to the CPU", "See the reason that the partitioner gives."),
    Rule("QD604", "something is gone", "See whether it is meant, and accept it if so."),
    Rule("QD605", "a dtype changed", "Look at the recipe, or allow it in the policy."),
    Rule("QD606", "accuracy or coverage fell", "See which outputs and layers regressed."),
    Rule("QD607", "the lowerings part", "Look here first; what follows may be no more than a consequence."),
)
"""Rules about a change."""
REGRESSIONS_PAGE = "docs/reference/regressions.md"
_HELP = {rule.id: rule.help for rule in REGRESSIONS}
_RULES = {
    "output": "QD601",
    "layer": "QD602",
    "fallback": "QD603",
    "dtype": "QD605",
    "accuracy": "QD606",
    "coverage": "QD606",
}


def regressions_of_pair(pair: Pair) -> tuple[Finding, ...]:
    """What is worse in B than in A; where the two part comes last.

    An output and a layer's own error are errors, an op that stays on the CPU a warning, and what a layer only
    passes on a note.
    """
    found = [_output(output) for output in output_pairs(pair) if output.missing or output.trend == "worse"]
    found += [_layer(layer) for layer in pair.diff.layers if layer.status in ("regressed", "worse")]
    found += [_fallback(fallback) for fallback in pair.diff.fallbacks if fallback.a is None]
    return (*found, *_parting(pair.diff.first_parting))


def _output(output: OutputPair) -> Finding:
    rule = "QD604" if output.missing else "QD601"
    a, b = units.with_unit(output.last.a), units.with_unit(output.last.b)
    return Finding(
        rule=rule,
        severity="error",
        where=f"output {output.output}",
        message=f"output {output.output} at {output.last.name}: {a} → {b}",
        evidence="; ".join(f"{rung.name} {change_of(rung)}" for rung in output.rungs),
        help=_HELP[rule],
        method=output.method,
    )


def _layer(layer: LayerDiff) -> Finding:
    side = side_of(layer)
    own = layer.status == "regressed"
    errors = (None if one is None else one.local if own else one.accumulated for one in (layer.a, layer.b))
    a, b = map(units.with_unit, errors)
    return Finding(
        rule="QD602",
        severity="error" if own else "note",
        where=side.tensor,
        message=f"{'own error' if own else 'error that reaches it'} of {side.tensor}: {a} → {b}",
        evidence="; ".join(map(change_text, layer.changes)),
        help=_HELP["QD602"] if own else "",
        method=side.method,
        module=side.module,
        source=side.source,
    )


def _fallback(fallback: FallbackDiff) -> Finding:
    assert fallback.b is not None, "an op of which A has nothing is one of B"
    return Finding(
        rule="QD603",
        severity="warning",
        where=fallback.b.node,
        message=f"{fallback.b.op} stays on the CPU in B only: {fallback.b.reason}",
        help=_HELP["QD603"],
        method=fallback.method,
    )


def _parting(parting: Parting | None) -> Iterator[Finding]:
    if parting is None:
        return
    run = parting.b or parting.a
    places = [place for place in _places(parting) if place.source]
    yield Finding(
        rule="QD607",
        severity="note",
        where=(run.name if run and run.name else parting.what) or parting.stage,
        message=parted(parting),
        help=_HELP["QD607"],
        method=parting.method,
        module=places[0].module if places else "",
        source=places[0].source if places else "",
    )


def _places(parting: Parting) -> Iterator[Place]:
    """The nodes at which two graphs part, those of B first."""
    if parting.graph is not None:
        yield from parting.graph.only_b
        yield from (node.b for node in parting.graph.changed)
        yield from parting.graph.only_a


def regressions_of_triage(triage: Triage) -> tuple[Finding, ...]:
    """What fails as errors, what is waived or gone without failing as notes; then where the two part."""
    judged = tuple(
        _judged(one) for one in triage.judgements if one.status in ("regressed", "missing", "waived")
    )
    return (*judged, *_parting(triage.parting))


def _judged(one: Judgement) -> Finding:
    rule = "QD604" if one.status == "missing" else _RULES[one.subject]
    severity: Severity = "error" if one.fails else "note"
    name = one.where if one.subject in one.where else f"{one.subject} {one.where}"
    return Finding(
        rule=rule,
        severity=severity,
        where=one.where,
        message=f"{name} {one.status}: {numbers(one)}",
        evidence="; ".join(part for part in (cause(one, placed=True), one.waiver) if part),
        help=_HELP[rule] if one.fails else "",
        method=one.method,
        module=one.module,
        source=one.source,
    )

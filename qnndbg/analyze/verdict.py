"""One line that names the fault: which step made the error, and which place in that step.

Owns the limits of what an output may lose. The order of the questions: did anything run; does the program
hand out what it computed; does it read its inputs as they are; then the step whose outputs part furthest
from those of the step before, if that is too far. :mod:`qnndbg.analyze.causes` says why a place errs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from qnndbg.analyze import wording
from qnndbg.analyze.causes import FLOOR_LIMIT
from qnndbg.analyze.lost import LostParts
from qnndbg.analyze.nonfinite import NonFinite
from qnndbg.analyze.touched import Touched
from qnndbg.model.attribution import PassChange
from qnndbg.model.graph import Node
from qnndbg.model.recording import RunnerName, casts_to_half, is_half
from qnndbg.model.result import (
    MAX_SQNR_DB,
    Cause,
    Comparison,
    Coverage,
    ErrorMetrics,
    LayerResult,
    Rung,
    Source,
    Verdict,
    VerdictKind,
)

FP16_OUTPUT_DB = 40.0
"""An fp16 output is sound from here: 1 % error, what a hundred roundings of 2**-11 do not add up to."""
BACKEND_DB = 30.0
"""A quantised HTP output is as its CPU model has it from here: 3 % error."""
QUANTISED_DB = 15.0
"""A quantised model is worth comparing from here; below, more than a sixth of the signal is error."""
ROUNDING_DB = 15.0
"""What roundings alone may leave of an output, as a quantised model may leave that much of eager."""
WORSE_DB = 6.0
"""The HTP may not double the error of the quantised model, ..."""
INAUDIBLE_DB = 60.0
"""... unless what it leaves is better than this. If it halves that error, it is not to blame at all."""
SAME_NUMBERS_DB = 100.0
"""Two float graphs that agree better than this differ by the order of float32 additions only."""
ROUNDING_LSB = 1.5
"""One step of the encoding, and float noise: a rounding that fell the other way, which no pass is at."""

HARMLESS: frozenset[Cause] = frozenset({"amplified", "rounding"})
"""Causes that are no fault of the place: its error is rounding, whatever comes of it."""

StepName = Literal["quantisation", "pass", "backend", "input"]
STEPS: dict[StepName, tuple[RunnerName, ...]] = {
    "quantisation": ("quantized",),
    "pass": ("annotation", "export", "edge", "transform", "reference"),
    "backend": ("htp-tapped", "htp"),
    "input": ("htp-given",),
}
"""Who answers for the rungs, each against the rung before."""
SPLIT: dict[StepName, tuple[RunnerName, ...]] = {"quantisation": ("quantized",), "backend": ("htp-tapped",)}
"""The rungs whose error is split over the places that make it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that a verdict rests on."""

    ladder: tuple[Rung, ...]
    """The rungs of every output and sample, in the order of ``RunnerName``."""
    layers: tuple[LayerResult, ...]
    coverage: Coverage
    precision: str
    sources: tuple[Source, ...] = ()
    payloads: tuple[Payload, ...] = ()
    changes: tuple[GuiltyPass, ...] = ()
    input_notes: tuple[str, ...] = ()
    """What was found about inputs that are not contiguous."""
    nonfinite: tuple[NonFinite, ...] = ()
    """Where NaN and infinities come from, in the samples whose outputs part by some."""
    lost: tuple[LostParts, ...] = ()
    """Outputs of which parts are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """An output of the program that is not what the HTP's tensor for it holds."""

    method: str
    output: int
    tensor: str
    op: str
    source: str
    detail: str
    wide: int | None = None
    """The output that is declared int64, if it is not this one."""

    @property
    def cast(self) -> str:
        """The output to cast, in words."""
        return "it" if self.wide is None else f"output {self.wide}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuiltyPass:
    """A pass that changed the numbers, and what it touched."""

    change: PassChange
    touched: Touched
    node: Node | None = None
    """Where the numbers begin to differ, if that could be told."""
    reader: Node | None = None
    """The op that reads it, where it is a constant."""

    @property
    def culprit(self) -> Node | None:
        """The node to name."""
        return self.node or self.touched.first

    @property
    def op(self) -> str:
        """The op to name: the culprit, or what reads it."""
        nodes = (node for node in (self.culprit, self.reader) if node is not None)
        return next((node.target for node in nodes if node.op == "call_function"), "")


def judge(evidence: Evidence) -> Verdict:
    """Name what is to blame for the error of the outputs."""
    if not evidence.coverage.compared:
        return wording.incomplete(evidence.coverage)
    if evidence.payloads:
        return wording.payload(evidence.payloads[0], final_rung(evidence.ladder))
    refused = [rung for rung in evidence.ladder if rung.name in STEPS["input"] and rung.note]
    if refused:
        return wording.refused_input(evidence.input_notes, refused[0])
    steps = {name: _weakest(evidence.ladder, rungs) for name, rungs in STEPS.items()}
    steps["backend"] = _seen(steps["backend"], evidence)
    guilty = [name for name, rung in steps.items() if _at_fault(name, rung, evidence)]
    if not guilty:
        final = final_rung(evidence.ladder)
        if final is None:
            return wording.outputs_missing()
        return wording.clean(final, evidence.coverage, len(sources(evidence.layers)), evidence.lost)
    name = min(guilty, key=lambda name: quality(_against_previous(steps[name])))
    if name == "backend" and "quantisation" in guilty and _harmless(steps[name], evidence):
        name = "quantisation"  # the HTP rounds as the encodings say, and those are too coarse already
    rung = steps[name]
    assert rung is not None
    return _blame(name, rung, evidence)


def _blame(name: StepName, rung: Rung, evidence: Evidence) -> Verdict:
    final = final_rung(evidence.ladder, rung)
    if name == "input":
        return wording.misread_input(evidence.input_notes, rung)
    if name == "pass":
        named = [p for p in evidence.changes if _leads_to(p.change, rung)]
        return wording.guilty_pass(named[0] if named else None, rung, _before(rung, evidence.ladder), final)
    if name == "backend" and rung.name == "htp":
        overflows = (s for s in evidence.sources if _of_rung(s, name, rung) and s.cause == "overflow")
        if overflow := next(overflows, None):
            return wording.overflow_of_production(overflow, rung, final)
        suspects = [la for la in sources(evidence.layers) if la.given and la.method == rung.method]
        return wording.build_differs(rung, final, suspects)
    found = [source for source in evidence.sources if _of_rung(source, name, rung)]
    culprit = culprit_of(found)
    if culprit is None and (first := _first_nonfinite(name, rung, evidence)):
        return wording.not_finite(first, final)
    if culprit is None:
        return wording.step_only("quantisation" if name == "quantisation" else "backend", rung, final)
    return wording.blamed(_kind(culprit), culprit, found, rung, final)


def _first_nonfinite(name: StepName, rung: Rung, evidence: Evidence) -> NonFinite | None:
    """Where the NaN or infinities of an output come from; of the quantiser's step only inputs are known."""
    if rung.against_previous is None or not rung.against_previous.nonfinite:
        return None
    same = (n for n in evidence.nonfinite if (n.method, n.sample) == (rung.method, rung.sample))
    return next((n for n in same if name == "backend" or not n.op), None)


def faults(
    evidence: Evidence, steps: Mapping[StepName, tuple[RunnerName, ...]] = STEPS
) -> frozenset[tuple[StepName, str, int, int]]:
    """The steps that are at fault: name of the step, method, sample and output.

    Args:
        evidence: of all rungs.
        steps: the rungs to look at, by the step that answers for them.
    """
    return frozenset(
        (name, rung.method, rung.sample, rung.output)
        for name, rungs in steps.items()
        for rung in evidence.ladder
        if rung.name in rungs and _at_fault(name, rung, evidence)
    )


def culprit_of(sources: Sequence[Source]) -> Source | None:
    """The source to name: the largest share, unless that one only rounds and another errs almost as much.

    One that takes from the error, by a negative share, is named only where none adds to it.

    Args:
        sources: of one output in one step, by falling magnitude of their shares.
    """
    if not sources:
        return None
    first = max(sources, key=lambda s: s.share)
    first = first if first.share > 0 else sources[0]
    if first.cause not in HARMLESS:
        return first
    rivals = (s for s in sources if s.cause not in HARMLESS and abs(s.share) >= abs(first.share) / 2)
    return next(rivals, first)


def _kind(source: Source) -> VerdictKind:
    if source.cause in HARMLESS:
        return "amplification"
    if source.step == "quantisation":
        return "quantisation"
    if source.cause == "fused":
        return "quantisation"  # a range clips; the HTP only does not follow it
    return "backend" if source.cause in {"builder", "kernel", "state"} else "format"


def empty_comparison(verdict: Verdict | None = None) -> Comparison:
    """The answer for a recording that holds no comparison."""
    coverage = Coverage(compared=0, total=0, reasons={})
    verdict = verdict or wording.incomplete(coverage)
    return Comparison(verdict=verdict, ladder=(), layers=(), coverage=coverage)


def sources(layers: Iterable[LayerResult]) -> tuple[LayerResult, ...]:
    """The layers whose local error is beyond what rounding explains, largest first: it is made there."""
    found = [layer for layer in layers if _is_source(layer)]
    return tuple(sorted(found, key=lambda layer: layer.excess or 0.0, reverse=True))


def victims(layers: Iterable[LayerResult]) -> tuple[LayerResult, ...]:
    """The layers whose accumulated error stands out though their local one does not: it is inherited."""
    return tuple(
        layer for layer in layers if (layer.inherited or 0.0) > FLOOR_LIMIT and not _is_source(layer)
    )


def _is_source(layer: LayerResult) -> bool:
    return (layer.excess or 0.0) > FLOOR_LIMIT and not layer.overflowed


def quality(error: ErrorMetrics | None) -> float:
    """SQNR in dB; minus infinity for an error without a signal and for elements that turn non-finite."""
    if error is None or not error.mismatched:
        return MAX_SQNR_DB
    return -math.inf if error.nonfinite or error.sqnr_db is None else error.sqnr_db


def final_rung(ladder: Iterable[Rung], guilty: Rung | None = None) -> Rung | None:
    """The HTP's last word on an output; on the worst one if none is named."""
    last = {
        (rung.method, rung.sample, rung.output): rung
        for rung in ladder
        if rung.name in (*STEPS["backend"], *STEPS["input"]) and rung.against_eager is not None
    }
    if guilty is not None:
        return last.get((guilty.method, guilty.sample, guilty.output))
    return min(last.values(), key=lambda rung: quality(rung.against_eager), default=None)


def _weakest(ladder: tuple[Rung, ...], names: tuple[str, ...]) -> Rung | None:
    """The rung of these names whose output parts furthest from the rung before."""
    rungs = [rung for rung in ladder if rung.name in names and rung.against_previous]
    return min(rungs, key=lambda rung: quality(rung.against_previous), default=None)


def _before(rung: Rung, ladder: tuple[Rung, ...]) -> str:
    """The name of the rung that this one is held against."""
    key = (rung.method, rung.sample, rung.output)
    same = [r for r in ladder if (r.method, r.sample, r.output) == key and (r == rung or r.against_eager)]
    return same[max(same.index(rung) - 1, 0)].name


def _seen(rung: Rung | None, evidence: Evidence) -> Rung | None:
    """The rung of the build whose layers can be seen, where that one is wrong too."""
    if rung is None or rung.name == "htp-tapped":
        return rung
    key = (rung.method, rung.sample, rung.output)
    tapped = next(
        (r for r in evidence.ladder if r.name == "htp-tapped" and (r.method, r.sample, r.output) == key), None
    )
    return tapped if _at_fault("backend", tapped, evidence) else rung


def _against_previous(rung: Rung | None) -> ErrorMetrics | None:
    return rung.against_previous if rung is not None else None


def _at_fault(name: StepName, rung: Rung | None, evidence: Evidence) -> bool:
    if rung is None or rung.against_previous is None:
        return False
    kept = quality(rung.against_previous)
    if not rung.against_previous.mismatched:
        return False
    if name == "pass":
        lsb = rung.against_previous.max_lsb
        limit = FP16_OUTPUT_DB if casts_to_half(evidence.precision) else SAME_NUMBERS_DB
        return kept < limit and (lsb is None or lsb > ROUNDING_LSB)
    if name == "quantisation":
        return kept < QUANTISED_DB
    if (
        name == "backend"
        and rung.name == "htp-tapped"
        and kept >= ROUNDING_DB
        and _only_rounds(rung, evidence)
    ):
        return False
    if is_half(evidence.precision):
        return kept < FP16_OUTPUT_DB
    now, before = quality(rung.against_eager), _quantised_quality(rung, evidence)
    if now > before + WORSE_DB:
        return False  # it left out a rounding or a clipping that spoils the model on the CPU
    if rung.name == "htp-tapped" and now >= before - WORSE_DB and _harmless(rung, evidence):
        return False  # it rounds otherwise, and is about as far from eager as that model
    return kept < BACKEND_DB or (now < INAUDIBLE_DB and now < before - WORSE_DB)


def _only_rounds(rung: Rung | None, evidence: Evidence) -> bool:
    """Whether roundings add up here, with no op at fault and nothing that magnifies them."""
    return _harmless(rung, evidence, frozenset({"rounding"}))


def _harmless(rung: Rung | None, evidence: Evidence, causes: frozenset[Cause] = HARMLESS) -> bool:
    """Whether no op of the HTP is at fault: what is named there has one of these causes."""
    found = [s for s in evidence.sources if rung is not None and _of_rung(s, "backend", rung)]
    culprit = culprit_of(found)
    return culprit is not None and culprit.cause in causes


def _quantised_quality(rung: Rung, evidence: Evidence) -> float:
    """How the quantised model on the CPU has the same output; NaN if it was not compared."""
    key = (rung.method, rung.sample, rung.output)
    before = [r for r in evidence.ladder if (r.method, r.sample, r.output) == key and r.name == "reference"]
    if not before or rung.against_eager is None:
        return math.nan
    return quality(before[0].against_eager)


def _leads_to(change: PassChange, rung: Rung) -> bool:
    return (change.method, change.sample, change.before) == (rung.method, rung.sample, rung.name)


def _of_rung(source: Source, name: StepName, rung: Rung) -> bool:
    step = "quantisation" if name == "quantisation" else "backend"
    return (source.step, source.method, source.sample, source.output) == (
        step,
        rung.method,
        rung.sample,
        rung.output,
    )

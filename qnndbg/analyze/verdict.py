"""One line that names the fault. Owns the limits and the ranking of layers; refuses to measure.

The rule is small and says so: the step of the ladder whose outputs part furthest from those of the step
before is to blame, if it is at fault at all. Quantisation is at fault where it leaves too little of the
signal, a pass where it changes numbers, the backend where it leaves too little or where a layer's local
error stands out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import Literal

from qnndbg.model.recording import RunnerName
from qnndbg.model.result import MAX_SQNR_DB, Comparison, Coverage, ErrorMetrics, LayerResult, Rung, Verdict

FP16_OUTPUT_DB = 40.0
"""An fp16 output is sound from here: 1 % error, what a hundred roundings of 2**-11 do not add up to."""
QUANTISED_OUTPUT_DB = 30.0
"""A quantised output is sound from here: 3 % error, under which an 8 bit classifier keeps its labels."""
SAME_NUMBERS_DB = 100.0
"""Two float graphs that agree better than this differ by the order of float32 additions only."""
LOCAL_LSB = 4.0
"""A kernel that rounds its inputs, its sum and its result apart may be this far off without a fault."""
LOCAL_LSB_RATIO = 10.0
"""An op that stands out does so against what the other ops of the same network show."""
LOCAL_DB = 40.0
"""The local limit where no encoding gives steps; ops in fp16 measure 70 dB and more."""

ROUNDING_LSB = 1.5
"""One step of the encoding, and float noise: a rounding that fell the other way, which no pass is at."""

Kind = Literal["quantisation", "pass", "backend"]
STEPS: dict[Kind, tuple[RunnerName, ...]] = {
    "quantisation": ("quantized",),
    "pass": ("edge", "reference"),
    "backend": ("htp-tapped", "htp"),
}
"""Who answers for the rungs, each against the rung before."""


def judge(
    ladder: tuple[Rung, ...], layers: tuple[LayerResult, ...], coverage: Coverage, *, precision: str
) -> Verdict:
    """Name what is to blame for the error of the outputs.

    Args:
        ladder: the rungs of every output, in the order of ``RunnerName``.
        layers: every QNN tensor.
        coverage: how many of them were compared.
        precision: as recorded; ``fp16`` asks for more dB than a quantised one.
    """
    if not coverage.compared:
        return _incomplete(coverage)
    floor = FP16_OUTPUT_DB if precision == "fp16" else QUANTISED_OUTPUT_DB
    culprits = sources(layers)
    steps = {kind: _weakest(ladder, names) for kind, names in STEPS.items()}
    guilty = [kind for kind, rung in steps.items() if _at_fault(kind, rung, floor)]
    if culprits and "backend" not in guilty:
        guilty.append("backend")
    final = _final(ladder)
    if not guilty and final and quality(final.against_eager) < floor:
        guilty = [kind for kind, rung in steps.items() if rung]
    if not guilty:
        return _clean(final, coverage) if final else _outputs_missing()
    kind = min(guilty, key=lambda kind: _step_quality(steps[kind]))
    return _blame(kind, steps[kind], ladder, culprits, precision)


def empty_comparison() -> Comparison:
    """The answer for a recording that holds no comparison."""
    coverage = Coverage(compared=0, total=0, reasons={})
    return Comparison(verdict=_incomplete(coverage), ladder=(), layers=(), coverage=coverage)


def lsb_limit(layers: Iterable[LayerResult]) -> float:
    """The local error in steps beyond which a layer of this network stands out."""
    lsb = [layer.local.max_lsb for layer in layers if layer.local and layer.local.max_lsb is not None]
    return max(LOCAL_LSB, LOCAL_LSB_RATIO * statistics.median(lsb)) if lsb else LOCAL_LSB


def excess(error: ErrorMetrics | None, limit: float) -> float:
    """How many dB an error is beyond its limit, which makes layers with and without steps comparable.

    Infinite for elements that turn non-finite; minus infinity for no error, or none that is known.

    Args:
        error: local or accumulated.
        limit: from :func:`lsb_limit`, for errors that are known in steps; the others have ``LOCAL_DB``.
    """
    if error is None or not error.mismatched:
        return -math.inf
    if error.nonfinite or error.max_lsb is None:
        return LOCAL_DB - quality(error)
    return 20 * math.log10(error.max_lsb / limit) if error.max_lsb else -math.inf


def sources(layers: Iterable[LayerResult]) -> tuple[LayerResult, ...]:
    """The layers whose local error stands out, largest first: the error is made there."""
    layers = tuple(layers)
    limit = lsb_limit(layers)
    found = (layer for layer in layers if excess(layer.local, limit) > 0)
    return tuple(sorted(found, key=lambda layer: excess(layer.local, limit), reverse=True))


def victims(layers: Iterable[LayerResult]) -> tuple[LayerResult, ...]:
    """The layers whose accumulated error stands out though their local one does not: it is inherited."""
    layers = tuple(layers)
    limit = lsb_limit(layers)
    return tuple(
        layer for layer in layers if excess(layer.accumulated, limit) > 0 >= excess(layer.local, limit)
    )


def quality(error: ErrorMetrics | None) -> float:
    """SQNR in dB; minus infinity for an error without a signal and for elements that turn non-finite."""
    if error is None or not error.mismatched:
        return MAX_SQNR_DB
    return -math.inf if error.nonfinite or error.sqnr_db is None else error.sqnr_db


def short_op(op: str) -> str:
    """``hardswish`` of ``aten.hardswish.default``; a name that is no ATen name as it is."""
    return op.split(".")[1] if op.count(".") == 2 else op


def _weakest(ladder: tuple[Rung, ...], names: tuple[str, ...]) -> Rung | None:
    """The rung of these names whose output parts furthest from the rung before."""
    rungs = [rung for rung in ladder if rung.name in names and rung.against_previous]
    return min(rungs, key=_step_quality, default=None)


def _step_quality(rung: Rung | None) -> float:
    return quality(rung.against_previous if rung else None)


def _at_fault(kind: Kind, rung: Rung | None, floor: float) -> bool:
    if rung is None or rung.against_previous is None:
        return False
    if kind != "pass":
        return _step_quality(rung) < floor
    lsb = rung.against_previous.max_lsb
    return _step_quality(rung) < SAME_NUMBERS_DB and (lsb is None or lsb > ROUNDING_LSB)


def _final(ladder: tuple[Rung, ...], guilty: Rung | None = None) -> Rung | None:
    """The HTP's last word on an output; on the worst one if none is named."""
    last = {
        (rung.method, rung.output): rung
        for rung in ladder
        if rung.name in STEPS["backend"] and rung.against_eager is not None
    }
    if guilty is not None:
        return last.get((guilty.method, guilty.output))
    return min(last.values(), key=lambda rung: quality(rung.against_eager), default=None)


def _blame(
    kind: Kind, rung: Rung | None, ladder: tuple[Rung, ...], culprits: tuple[LayerResult, ...], precision: str
) -> Verdict:
    """The verdict on a guilty step, told by its weakest rung."""
    ending = _ending(_final(ladder, rung))
    if kind == "backend":
        return _backend(culprits, ending, precision)
    if rung is None:
        raise ValueError(f"no rung to blame for {kind}")
    return _quantisation(rung, ending, precision) if kind == "quantisation" else _pass(rung, ending)


def _quantisation(rung: Rung, ending: str, precision: str) -> Verdict:
    finer = "fp16" if precision.startswith("16a") else "16a8w"
    return Verdict(
        kind="quantisation",
        text=f"quantisation: the quantised model on the CPU has {decibels(rung.against_eager)}; {ending}",
        culprit="",
        next_step=(
            "Try a min-max observer, since the default one clips; then more calibration inputs, "
            f"then --precision {finer}."
        ),
    )


def _pass(rung: Rung, ending: str) -> Verdict:
    stage = "preprocess" if rung.name == "reference" else "export or to-edge"
    kept = decibels(rung.against_previous)
    return Verdict(
        kind="pass",
        text=f"pass: the {stage} passes change the numbers and leave {kept}; {ending}",
        culprit="",
        next_step="Look at the passes that changed the graph in these stages; the recording lists them.",
    )


def _backend(culprits: tuple[LayerResult, ...], ending: str, precision: str) -> Verdict:
    if not culprits:
        return Verdict(
            kind="backend",
            text=f"backend: the HTP adds the most error, yet no layer stands out; {ending}",
            culprit="",
            next_step="Look at the layers with the largest local errors, of which many small ones add up.",
        )
    worst, others = culprits[0], len(culprits) - 1
    op = short_op(worst.op)
    places = (worst.tensor, f"module {worst.module}" if worst.module else "", worst.source)
    where = ", ".join(place for place in places if place)
    more = f" (and {others} more like it)" if others else ""
    step = f"Keep {op} off the HTP or write it in other ops, and record again."
    if precision == "fp16":
        step = f"See whether values of {op} exceed 65504, where fp16 ends, and rescale them."
    return Verdict(
        kind="backend",
        text=f"backend: {op} ({where}) {_local(worst.local)} on its own inputs{more}; {ending}",
        culprit=worst.tensor,
        next_step=step,
    )


def _clean(final: Rung, coverage: Coverage) -> Verdict:
    return Verdict(
        kind="clean",
        text=f"clean: {_ending(final)}, and none of {coverage.compared} QNN tensors stands out",
        culprit="",
        next_step="Nothing to fix; record other inputs to see whether it stays so.",
    )


def _outputs_missing() -> Verdict:
    return Verdict(
        kind="incomplete",
        text="incomplete: no output of the HTP could be compared with eager",
        culprit="",
        next_step="See the notes on the rungs of the ladder.",
    )


def _incomplete(coverage: Coverage) -> Verdict:
    text = "incomplete: the recording holds no comparison"
    if coverage.total:
        text = f"incomplete: none of {coverage.total} QNN tensors could be compared"
    step = (
        "See the reasons under coverage."
        if coverage.reasons
        else "Record again, once what ended it early is fixed."
    )
    return Verdict(kind="incomplete", text=text, culprit="", next_step=step)


def _ending(final: Rung | None) -> str:
    """What is left of an output, as half a sentence."""
    if final is None:
        return "its output could not be compared with eager"
    name = f"output {final.output}" if final.output else "the output"
    if final.method != "forward":
        name = f"{name} of {final.method}"
    return f"{name} has {decibels(final.against_eager)} against eager"


def decibels(error: ErrorMetrics | None) -> str:
    """An SQNR as the object of "has", in the cases where it is no number too."""
    if error is None:
        return "no comparison"
    if not error.mismatched:
        return "no error"
    if error.nonfinite:
        return f"{error.nonfinite} elements that turned NaN or infinite"
    return "an undefined SQNR (zero signal)" if error.sqnr_db is None else f"{error.sqnr_db:.1f} dB"


def _local(error: ErrorMetrics | None) -> str:
    if error is None or error.nonfinite or error.max_lsb is None:
        return f"has {decibels(error)}"
    return f"is off by {error.max_lsb:.0f} LSB"

"""The words of a verdict: what is wrong, whose fault it is, how much of the error, and what to try next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qnndbg.analyze.phrases import (
    counted,
    culprit_name,
    decibels,
    ending,
    one_line,
    output_name,
    percent,
    short_op,
    where_of,
)
from qnndbg.model.attribution import Step
from qnndbg.model.recording import Failure, Fallback, PassEvent
from qnndbg.model.result import (
    Cause,
    Coverage,
    LayerResult,
    Rung,
    Source,
    Verdict,
    VerdictKind,
)

if TYPE_CHECKING:
    from qnndbg.analyze.lost import LostParts
    from qnndbg.analyze.nonfinite import NonFinite
    from qnndbg.analyze.verdict import GuiltyPass, Payload

REMEDIES: dict[Cause, str] = {
    "kernel": "Write {op} in other ops, or keep it off the HTP (skip_node_op_set), if the CPU has it.",
    "builder": "Give that weight one scale per channel, such as with --precision 16a8w.",
    "fused": "Calibrate {op} so that nothing is clipped there (a min-max observer); both then agree.",
    "overflow": "Rescale the values of {op} so that they stay below 65504, and scale back behind it.",
    "flushed": "Make it at least 6.1e-05, where half floats begin to lose digits, or scale around it.",
    "precision": "Subtract an offset or rescale it before it goes into the model, or quantise to 16 bits.",
    "integers": "Compute {op} on the CPU (skip_node_op_set): whole numbers need exact arithmetic.",
    "stagnation": "Sum in parts, or take the mean of means, so that no sum outgrows what is added to it.",
    "state": "Write the state before it is read, with the first call.",
    "amplified": "Rewrite what comes after {op}, so that no small difference of large numbers decides.",
    "rounding": "Use a finer format for {op}: it only rounds, and too coarsely for this output.",
    "flipped": "Keep {op} and what compares it in a finer format, or leave a margin around the threshold.",
    "clipped": "Calibrate with inputs like these; if some are clipped even so, use a min-max observer.",
    "wide range": "Calibrate with inputs like these, so that the range fits the values.",
    "outlier channel": "Quantise it per channel, or give it 16 bits.",
    "few bits": "Give it 16 bits (--precision 16a8w), or keep it in fp16.",
}
PAYLOAD_REMEDY = "Cast {output} to int32 in the model, or return the values that it picks instead."
SOUND_DB = 30.0
"""An output that has less is not called good, whoever made it so."""
EXPLAINED = 0.5
"""Estimated shares that add up to less than half of the error, or more than one and a half, tell none."""
LOUD_REMEDY = "Give {op} 16 bits, or bring that channel down before and up again behind."
"""Of an outlier channel of an activation, which has one scale for all."""
MAGNIFIED_REMEDY = "Rewrite {magnifier}, so that no small difference of large numbers decides."


def blamed(
    kind: VerdictKind, culprit: Source, found: Sequence[Source], rung: Rung, final: Rung | None
) -> Verdict:
    """A place in a step is to blame.

    Args:
        kind: whose fault that is.
        culprit: the place.
        found: all sources of the output in the step, the culprit among them.
        rung: at which the error shows.
        final: the HTP's last word on that output.
    """
    name = culprit_name(culprit)
    where = where_of(culprit.module, culprit.source)
    does = "begins" if kind == "amplification" else "is made"
    told = culprit.measured or culprit.explained is None or abs(culprit.explained - 1.0) <= EXPLAINED
    share = f"{percent(culprit.share)} of the error" if told else "as far as can be told, the error"
    at = f"{name}{f' ({where})' if where else ''}"
    text = (
        f"{kind}: {share} of {output_name(rung)} {does} at {at}: {culprit.detail}; "
        f"{_own(culprit.step, rung, final)}{ending(final)}"
    )
    remedy = MAGNIFIED_REMEDY if culprit.magnified_by else REMEDIES[culprit.cause]
    if culprit.cause == "outlier channel" and culprit.kind != "constant":
        remedy = LOUD_REMEDY
    op = short_op(culprit.op) if culprit.kind == "op" else ""
    return Verdict(
        kind=kind,
        text=text,
        culprit=culprit.name,
        next_step=remedy.format(op=op or name, magnifier=culprit.magnified_by),
        op=culprit.op,
        share=culprit.share if told else None,
        confidence="measured" if culprit.measured else "estimated",
    )


def step_only(kind: VerdictKind, rung: Rung, final: Rung | None) -> Verdict:
    """A step is to blame, and no place in it could be told."""
    who = "the quantised model on the CPU" if kind == "quantisation" else "the HTP"
    return Verdict(
        kind=kind,
        text=f"{kind}: {who} has {decibels(rung.against_previous)} against the step before; {ending(final)}",
        culprit="",
        next_step=_after_step(kind, rung),
    )


def not_finite(first: NonFinite, final: Rung | None) -> Verdict:
    """NaN or infinities, which the HTP has none of, come from an input or an op."""
    known = "the HTP knows neither NaN nor infinity"
    where = where_of(first.module, first.source)
    op = f"{short_op(first.op)}{f' ({where})' if where else ''}"
    if not first.op:
        kind: VerdictKind = "format" if first.constant else "input"
        name = f"the constant {first.name}" if first.constant else first.name
        text = f"{kind}: {name} holds {first.what}, and {known}"
        step = "Replace them before the model, such as with torch.nan_to_num."
    elif first.on_htp:
        kind, text = "backend", f"backend: {op} makes {first.what} on the HTP where the CPU has numbers"
        step = REMEDIES["kernel"].format(op=short_op(first.op))
    else:
        kind, text = "format", f"format: {op} makes {first.what} on the CPU, and {known}"
        step = f"Keep what {short_op(first.op)} reads where its result is a number, such as with a clamp."
    return Verdict(
        kind=kind, text=f"{text}; {ending(final)}", culprit=first.name, op=first.op, next_step=step
    )


def _after_step(kind: VerdictKind, rung: Rung) -> str:
    if rung.against_previous is not None and rung.against_previous.nonfinite:
        return "Find where the first NaN or infinity comes from: an input, a division by zero or an overflow."
    if kind == "quantisation":
        return "Try a min-max observer, since the default one clips; then more calibration inputs."
    return "Look at the layers with the largest local errors, of which many small ones add up."


def guilty_pass(guilty: GuiltyPass | None, rung: Rung, before: str, final: Rung | None) -> Verdict:
    """A pass changed the numbers.

    Args:
        guilty: None if none of the recorded snapshots shows it.
        rung: the first that is wrong.
        before: the name of the last that is right.
        final: the HTP's last word on that output.
    """
    kept = f"leaves {decibels(rung.against_previous)}; {ending(final)}"
    if guilty is None:
        return Verdict(
            kind="pass",
            text=f"pass: something between the rungs {before} and {rung.name} changes the numbers and {kept}",
            culprit="",
            next_step="Look at the passes that changed the graph in this stage: qnndbg show --all.",
        )
    change, node = guilty.change, guilty.culprit
    where = f" at {short_op(node.target) if node.op == 'call_function' else node.name}" if node else ""
    source = f" ({node.origin.source})" if node and node.origin.source else ""
    if change.narrowed:
        return Verdict(
            kind="dtype",
            text=(
                f"dtype: the pass {change.name} narrows int64 to int32{where}{source}, and an input holds "
                f"values beyond int32, which wrap; {ending(final)}"
            ),
            culprit=change.name,
            op=guilty.op,
            next_step="Keep the values below 2147483648, or compute them on the CPU (skip_node_op_set).",
            share=1.0,
            confidence="measured",
        )
    return Verdict(
        kind="pass",
        text=f"pass: {change.name} of the stage {change.stage} changes the numbers{where}{source}, {kept}",
        culprit=change.name,
        op=guilty.op,
        next_step="Take the pass out of passes_job, if its stage has one, and look at what it does there.",
        share=1.0,
        confidence="measured",
    )


def build_differs(rung: Rung, final: Rung | None, suspects: Sequence[LayerResult] = ()) -> Verdict:
    """The production build computes something else than the one with the dump.

    Args:
        rung: of the production build.
        final: the HTP's last word on that output.
        suspects: inputs and constants that the HTP does not hold as they are, the worst one first.
    """
    step = "take ops off the HTP one after the other (skip_node_op_set) until the two builds agree."
    if suspects:
        first = suspects[0]
        where = where_of(first.module, first.source)
        what = f"the {first.given} {first.tensor}{f' ({where})' if where else ''}"
        step = f"Rescale {what} first, which the HTP does not hold as it is; then {step}"
    return Verdict(
        kind="backend",
        text=(
            f"backend: the production build has {decibels(rung.against_previous)} against the build that "
            f"dumps its intermediates, so that its layers cannot be seen; {ending(final)}"
        ),
        culprit="",
        next_step=step[0].upper() + step[1:],
    )


def overflow_of_production(overflow: Source, rung: Rung, final: Rung | None) -> Verdict:
    """The production build differs from the one with the dump, in which values overflow already.

    Args:
        overflow: the place where they begin to.
        rung: of the production build.
        final: the HTP's last word on that output.
    """
    name, where = culprit_name(overflow), where_of(overflow.module, overflow.source)
    return Verdict(
        kind="format",
        text=(
            f"format: at {name}{f' ({where})' if where else ''} {overflow.detail}; the production build "
            f"makes something else of it than the build that dumps its intermediates: it has "
            f"{decibels(rung.against_previous)} against that one, and {ending(final)}"
        ),
        culprit=overflow.name,
        next_step=REMEDIES["overflow"].format(op=short_op(overflow.op) or name),
        op=overflow.op,
    )


def misread_input(notes: Sequence[str], rung: Rung) -> Verdict:
    """An input is right, and is read in another layout."""
    what = notes[0] if notes else "an input is not contiguous"
    name = what.partition(":")[0]
    return Verdict(
        kind="input",
        text=f"input: {what}; as given, {output_name(rung)} has {decibels(rung.against_eager)} against eager",
        culprit=name,
        next_step="Hand it over contiguous: x.contiguous().",
        share=1.0,
        confidence="measured",
    )


def refused_input(notes: Sequence[str], rung: Rung) -> Verdict:
    """An input is right, and the runtime does not take its layout."""
    what = notes[0] if notes else "an input is not contiguous"
    return Verdict(
        kind="input",
        text=f"input: {what}; as it was given, the runtime refuses it: {one_line(rung.note)}",
        culprit=what.partition(":")[0],
        next_step="Hand it over contiguous: x.contiguous().",
    )


def payload(found: Payload, final: Rung | None) -> Verdict:
    """The program hands out something else than the HTP computed."""
    where = f" ({found.source})" if found.source else ""
    return Verdict(
        kind="backend",
        text=(
            f"backend: output {found.output} of the program is not what {short_op(found.op)}{where} "
            f"computed: {found.detail}; {ending(final)}"
        ),
        culprit=found.tensor,
        op=found.op,
        next_step=PAYLOAD_REMEDY.format(output=found.cast),
        share=1.0,
        confidence="measured",
    )


def clean(final: Rung, coverage: Coverage, erring: int, lost: Sequence[LostParts] = ()) -> Verdict:
    """Nothing is wrong.

    Args:
        final: the worst output.
        coverage: what was compared.
        erring: layers that err by more than rounding all the same.
        lost: outputs of which parts are lost all the same.
    """
    if lost:
        whose = f" of output {lost[0].output}" if lost[0].output else ""
        return Verdict(
            kind="clean",
            text=f"clean on the whole: {ending(final)}; but {lost[0].what}{whose} are more error than signal",
            culprit="",
            next_step="If they matter: return them apart from larger ones, for a scale of their own (QD115).",
        )
    quality = final.against_eager.sqnr_db if final.against_eager is not None else None
    if quality is not None and quality < SOUND_DB:
        return Verdict(
            kind="clean",
            text=f"clean: {ending(final)}, and no step is at fault; {coverage.compared} QNN tensors compared",
            culprit="",
            next_step="If that is too little: the sources say where it is lost.",
        )
    few = f": the errors of {counted(erring, 'layer')} (▲) are too small at the output to matter"
    return Verdict(
        kind="clean",
        text=f"clean: {ending(final)}; {coverage.compared} QNN tensors compared",
        culprit="",
        next_step=f"Nothing to fix{few if erring else ''}; record other inputs to see whether it stays so.",
    )


def outputs_missing() -> Verdict:
    """Layers were compared, and no output was."""
    return Verdict(
        kind="incomplete",
        text="incomplete: no output of the HTP could be compared with eager",
        culprit="",
        next_step="See the notes on the rungs of the ladder.",
    )


def incomplete(coverage: Coverage) -> Verdict:
    """Nothing was compared."""
    text = "incomplete: the recording holds no comparison"
    if coverage.total:
        text = f"incomplete: none of {coverage.total} QNN tensors could be compared"
    step = (
        "See the reasons under coverage."
        if coverage.reasons
        else "Record again, once what ended it early is fixed."
    )
    return Verdict(kind="incomplete", text=text, culprit="", next_step=step)


def not_delegated(fallbacks: Sequence[Fallback]) -> Verdict:
    """Everything stays on the CPU."""
    first = fallbacks[0] if fallbacks else None
    why = f": {short_op(first.op)}: {one_line(first.reason)}" if first else ""
    return Verdict(
        kind="graph",
        text=f"graph: nothing was delegated to the HTP; every op stays on the CPU{why}",
        culprit=first.node if first else "",
        op=first.op if first else "",
        next_step="The reasons are listed beside the ops: qnndbg show --all.",
    )


def failed(failure: Failure, passes: Sequence[PassEvent], fallbacks: Sequence[Fallback] = ()) -> Verdict:
    """The lowering, or the execution of its program, did not come to its end."""
    broken = next((event for event in passes if event.error), None)
    node = failure.node
    stays = sorted({fallback.op for fallback in fallbacks}) if failure.step.startswith("htp") else []
    where = (
        f"the pass {broken.name} of the stage {broken.stage}"
        if broken
        else (f"the stage {failure.stage}" if failure.stage else f"the step {failure.step}")
    )
    at = f" at {node.op}{f' ({node.source})' if node.source else ''}" if node else ""
    if stays:
        at = f", with {', '.join(stays)} on the CPU"
    return Verdict(
        kind="lowering",
        text=f"lowering: {where} fails{at}: {one_line(failure.error)}",
        culprit=broken.name if broken else node.name if node else failure.stage or failure.step,
        op=node.op if node else ", ".join(stays),
        next_step=failure.hint or "The recording holds every graph up to there: qnndbg show --all.",
    )


def _own(step: Step, rung: Rung, final: Rung | None) -> str:
    """What the HTP by itself leaves of an output that the quantised model has wrong too."""
    if step != "backend" or final is None or rung.against_eager is None or rung.against_previous is None:
        return ""
    own, whole = decibels(rung.against_previous), decibels(rung.against_eager)
    return f"the HTP has {own} against the same program on the CPU, and " if own != whole else ""

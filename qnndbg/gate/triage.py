"""The check: judges a recording by a policy, against a baseline where there is one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import get_args

from msgspec.structs import replace

from qnndbg.analyze.diff.program import page_of
from qnndbg.analyze.diff.recordings import diff_recordings
from qnndbg.errors import LoweringError, NothingComparedError, RecordingError
from qnndbg.gate.layers import judge_dtypes, judge_layers
from qnndbg.gate.limits import matches
from qnndbg.gate.outputs import judge_accuracy, judge_coverage, judge_outputs
from qnndbg.gate.policy import Policy, Waiver
from qnndbg.gate.program import judge_fallbacks
from qnndbg.gate.sides import Case
from qnndbg.model.diff import Diff, Parting
from qnndbg.model.result import Comparison
from qnndbg.model.triage import Judgement, JudgementStatus, Subject, Triage
from qnndbg.recording.store import Recording

OF_THE_REQUEST = ("target", "precision", "soc")
"""What a difference lists under environment, and what is no environment."""


def triage(recording: Recording, baseline: Recording | None, policy: Policy) -> Triage:
    """Judge a recording; nothing is run, so that another policy may be tried at once.

    Args:
        recording: a complete one.
        baseline: a baseline, or a recording to take for one; None to ask the policy alone.
        policy: the limits.

    Raises:
        LoweringError: the recording is one of a lowering that failed.
        NothingComparedError: nothing of it was compared, which is never a pass.
        RecordingError: it ends early, or a part of either is missing or damaged.
    """
    now = compared(recording)
    diff = diff_recordings(baseline, recording) if baseline else None
    case = Case(
        policy=policy,
        now=now,
        page=recording.manifest,
        before=compared(baseline) if baseline else None,
        page_before=baseline.manifest if baseline else None,
        diff=diff,
    )
    judged = [_blamed(case, one) for one in _waived(policy, list(_judgements(case)))]
    counts = Counter(one.status for one in judged)
    told = sorted((one for one in judged if one.status != "unchanged"), key=_order)
    return Triage(
        passed=not any(one.fails for one in judged),
        recording=page_of(recording),
        baseline=page_of(baseline) if baseline else None,
        counts={status: counts[status] for status in get_args(JudgementStatus)},
        judgements=tuple(told),
        parting=diff.first_parting if diff else None,
        verdict=now.verdict,
        environment=tuple(c for c in diff.environment if c.what not in OF_THE_REQUEST) if diff else (),
        notes=tuple(_notes(case, judged)),
    )


def compared(recording: Recording) -> Comparison:
    """The answer of a recording that has one.

    Raises:
        LoweringError: the lowering failed.
        NothingComparedError: nothing was compared.
        RecordingError: the recording ends early.
    """
    failure = recording.manifest.failure
    if failure is not None:
        raise LoweringError(f"{recording.folder} failed at {failure.step}: {failure.error}", failure.hint)
    answer = recording.comparison()
    if answer is None or not recording.manifest.complete:
        raise RecordingError(f"{recording.folder} is not complete, so it cannot be judged", "record again")
    if not answer.coverage.compared:
        raise NothingComparedError(answer.verdict.text, answer.verdict.next_step)
    return answer


def _judgements(case: Case) -> Iterator[Judgement]:
    yield from judge_outputs(case)
    yield from judge_accuracy(case)
    yield from judge_layers(case)
    yield from judge_dtypes(case)
    yield from judge_fallbacks(case)
    yield from judge_coverage(case)


def _order(one: Judgement) -> tuple[bool, int, int]:
    """What fails first, then by status and subject; within them in the order of execution."""
    status, subject = get_args(JudgementStatus), get_args(Subject)
    return not one.fails, status.index(one.status), subject.index(one.subject)


def _waived(policy: Policy, judged: list[Judgement]) -> Iterator[Judgement]:
    for one in judged:
        waiver = next((w for w in policy.waiver if one.fails and _waives(w, one)), None)
        if waiver is None:
            yield one
        else:
            words = f"{waiver.reason} (until {waiver.expires})"
            yield replace(one, status="waived", fails=False, waiver=words)


def _waives(waiver: Waiver, one: Judgement) -> bool:
    fits = not waiver.subject or waiver.subject == one.subject
    return fits and matches(waiver.match, one.where, one.op, one.module)


def _blamed(case: Case, one: Judgement) -> Judgement:
    """Name the pass or rung that a regression comes from; what did not get worse has nobody to blame."""
    if one.blame is None or one.status not in ("regressed", "waived"):
        return replace(one, blame=None)
    parting = case.diff.first_parting if case.diff else None
    by = _by(parting) or one.blame.rung
    return replace(one, blame=replace(one.blame, by=by, culprit=case.now.verdict.culprit))


def _by(parting: Parting | None) -> str:
    if parting is None:
        return ""
    if parting.kind == "start":
        return "the model"
    run = parting.b or parting.a
    return f"{run.name} ({parting.stage})" if run and run.name else parting.what or parting.stage


def _notes(case: Case, judged: list[Judgement]) -> Iterator[str]:
    if case.before is None:
        yield "there is no baseline: layers are held against their limits, changes are not seen"
    elif case.diff is not None:
        yield from _of_sides(case.diff)
    for waiver in case.policy.waiver:
        if not any(_waives(waiver, one) for one in judged if one.status != "unchanged"):
            yield f"the waiver for {waiver.match} waives nothing; take it out"
    yield from _idle_limits(case.policy, case.now)


def _idle_limits(policy: Policy, now: Comparison) -> Iterator[str]:
    """Limits of what is not there: a misspelt name would hold nothing."""
    outputs = {(rung.method, rung.output) for rung in now.ladder}
    for output in policy.output:
        if (output.method, output.index) not in outputs:
            yield f"there is no output {output.index} of {output.method}, for which the policy has limits"
    for kind, entries in (("op", policy.op), ("module", policy.module)):
        for entry in entries:
            if not any(matches(entry.match, getattr(layer, kind)) for layer in now.layers):
                yield f"no {kind} is {entry.match}, for which the policy has a limit"


def _of_sides(diff: Diff) -> Iterator[str]:
    for what in OF_THE_REQUEST:
        a, b = getattr(diff.a, what), getattr(diff.b, what)
        if a != b:
            yield f"the baseline is of another {what}: {a or 'none'}, here {b or 'none'}"
    if any(output.rounding for output in diff.outputs):
        yield "the CPU's answers are those of the baseline, but for the rounding of float32"
    moved = [change.what for change in diff.environment if change.what not in OF_THE_REQUEST]
    if moved:
        yield f"the baseline was made in another environment: {', '.join(moved)}"

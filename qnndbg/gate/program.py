"""Judges which ops stay on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

from qnndbg.gate.limits import matches
from qnndbg.gate.sides import Case
from qnndbg.model.diff import FallbackDiff
from qnndbg.model.recording import Fallback
from qnndbg.model.triage import Blame, Judgement


def judge_fallbacks(case: Case) -> Iterator[Judgement]:
    """Ops that one side alone has on the CPU."""
    for diff in case.diff.fallbacks if case.diff else ():
        if diff.b and not diff.a:
            yield _new(case, diff, diff.b)
        elif diff.a and not diff.b:
            yield Judgement(
                subject="fallback",
                where=diff.a.node,
                method=diff.method,
                op=diff.a.op,
                status="fixed",
                before=diff.a.reason,
            )


def _new(case: Case, diff: FallbackDiff, fallback: Fallback) -> Judgement:
    entries = case.policy.allow.fallback
    allowed = next((entry for entry in entries if matches(entry.match, fallback.op, fallback.node)), None)
    return Judgement(
        subject="fallback",
        where=fallback.node,
        method=diff.method,
        op=fallback.op,
        status="waived" if allowed else "regressed",
        fails=allowed is None,
        now=fallback.reason,
        said_by=f"allow.fallback {allowed.match}" if allowed else "allow.fallback",
        waiver=allowed.reason if allowed else "",
        blame=Blame(by=""),
    )

"""Judges the outputs: their error against eager at the last rung, their accuracy, and the coverage."""

from __future__ import annotations

from collections.abc import Iterator

from qnndbg.analyze.diff.layers import EQUAL_DB, VISIBLE_DB, gained
from qnndbg.gate.limits import OutputLimits, output_limits
from qnndbg.gate.sides import Case
from qnndbg.model.recording import Manifest
from qnndbg.model.result import Comparison, ErrorMetrics
from qnndbg.model.triage import Blame, Judgement, JudgementStatus

FLOAT_NOISE = 1e-9
"""Two shares of samples that are closer are the same."""
FINAL = ("htp", "htp-tapped")
"""The rung that counts: the build that would ship, or else the one that dumps."""

Output = tuple[str, int]
"""Method and index."""


def judge_outputs(case: Case) -> Iterator[Judgement]:
    """Each output of either side, by its worst sample."""
    now = worst(case.now)
    before = worst(case.before) if case.before else {}
    for output in sorted({*now, *before}):
        limits = output_limits(case.policy, *output)
        old, new = _final(before.get(output, {})), _final(now.get(output, {}))
        status, failed = _status(case, limits, old, new)
        if old is None and new is None:
            continue
        limit = limits.sqnr_db if failed == "sqnr_db" else limits.drop_db
        rung = _first_moved(before.get(output, {}), now.get(output, {})) if case.before else ""
        yield Judgement(
            subject="output",
            where=f"output {output[1]}",
            method=output[0],
            status=status,
            fails=status in ("regressed", "missing"),
            before=old,
            now=new,
            unit="dB",
            limit=limit.value if limit else None,
            said_by=limit.said_by if limit else "",
            blame=Blame(by="", rung=rung),
        )


def _status(
    case: Case, limits: OutputLimits, old: float | None, new: float | None
) -> tuple[JudgementStatus, str]:
    """What became of an output, and which limit says so."""
    if new is None:
        return "missing", ""
    if limits.sqnr_db and new < limits.sqnr_db.value:
        return "regressed", "sqnr_db"
    if old is None:
        return "new" if case.before else "unchanged", ""
    more = gained(old, new)
    if abs(more) <= limits.drop_db.value:
        return "unchanged", ""
    return ("fixed" if more > 0 else "regressed"), "drop_db"


def worst(comparison: Comparison) -> dict[Output, dict[str, float]]:
    """Of each output and rung the lowest SQNR against eager of any sample, in dB."""
    found: dict[Output, dict[str, float]] = {}
    for rung in comparison.ladder:
        if rung.against_eager is not None:
            rungs = found.setdefault((rung.method, rung.output), {})
            value = decibels(rung.against_eager)
            rungs[rung.name] = min(rungs.get(rung.name, value), value)
    return found


def decibels(error: ErrorMetrics) -> float:
    """The SQNR, where it is undefined as what it stands for: all signal, or none."""
    if error.nonfinite:
        return 0.0
    if error.sqnr_db is None:
        return 0.0 if error.mismatched else 2 * EQUAL_DB
    return error.sqnr_db


def _final(rungs: dict[str, float]) -> float | None:
    return next((rungs[name] for name in FINAL if name in rungs), None)


def _first_moved(before: dict[str, float], now: dict[str, float]) -> str:
    """The first rung that both have and whose error is another one."""
    for name, value in now.items():
        if name in before and abs(gained(before[name], value)) >= VISIBLE_DB:
            return name
    return ""


def judge_accuracy(case: Case) -> Iterator[Judgement]:
    """How many labelled samples the HTP gets right."""
    old = _correct(case.page_before) if case.page_before else None
    new = _correct(case.page)
    if new is None or old is None:
        return
    limit = case.policy.limits.accuracy_drop
    gained = new[0] / new[1] - old[0] / old[1]
    moved = abs(gained) > limit + FLOAT_NOISE
    status: JudgementStatus = "unchanged" if not moved else "fixed" if gained > 0 else "regressed"
    yield Judgement(
        subject="accuracy",
        where="htp",
        status=status,
        fails=status == "regressed",
        before=f"{old[0]} of {old[1]}",
        now=f"{new[0]} of {new[1]}",
        limit=limit,
        said_by="limits.accuracy_drop",
        blame=Blame(by=""),
    )


def _correct(page: Manifest) -> tuple[int, int] | None:
    accuracy = page.accuracy
    if accuracy is None or not accuracy.samples or "htp" not in accuracy.correct:
        return None
    return accuracy.correct["htp"], accuracy.samples


def judge_coverage(case: Case) -> Iterator[Judgement]:
    """How many of the QNN tensors were compared."""
    coverage, limit = case.now.coverage, case.policy.limits.coverage
    share = coverage.share or 0.0
    if share < limit:
        before = case.before.coverage if case.before else None
        yield Judgement(
            subject="coverage",
            where="QNN tensors",
            status="regressed",
            fails=True,
            before=f"{before.compared} of {before.total}" if before else None,
            now=f"{coverage.compared} of {coverage.total}",
            limit=limit,
            said_by="limits.coverage",
            blame=Blame(by=""),
        )

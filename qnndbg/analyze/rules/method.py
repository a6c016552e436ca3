"""QD5xx: how far the measurement itself can be trusted."""

from __future__ import annotations

from collections.abc import Iterator

from qnndbg.analyze.phrases import decibels, output_name
from qnndbg.analyze.rules.context import Context, finding
from qnndbg.analyze.verdict import quality
from qnndbg.model.result import Finding, Rung

DUMP_DB = 60.0
"""A dump that leaves the result better than this disturbs nothing that matters."""
REPEAT = "repeated"
"""The problem under which a run notes that it was not the same twice."""


def find(context: Context) -> Iterator[Finding]:
    """What the dump changes, what is not the same twice, and what could not be compared."""
    for rung in context.evidence.ladder:
        if rung.name == "htp" and rung.against_previous is not None and rung.against_previous.mismatched:
            yield _dump(context, rung)
        key = ("quantisation", rung.method, rung.sample, rung.output)
        if rung.name == "quantized" and key in context.faults:
            yield finding(
                "QD503",
                "error",
                f"output {rung.output}",
                f"{output_name(rung)} of the quantised model has {decibels(rung.against_eager)}",
                method=rung.method,
            )
    for run in context.recording.runs.values():
        if REPEAT in run.problems:
            yield finding("QD502", "warning", run.runner, run.problems[REPEAT], method=run.method)
        if run.runner == "htp-tapped":
            for tensor, problem in run.problems.items():
                yield finding("QD505", "note", tensor, problem, method=run.method)
    yield from _coverage(context)


def _dump(context: Context, rung: Rung) -> Finding:
    disturbed = quality(rung.against_previous) < DUMP_DB
    wrong = disturbed and context.is_wrong("backend", rung.method)
    return finding(
        "QD501",
        "warning" if wrong else "note",
        f"output {rung.output}",
        f"{output_name(rung)} has {decibels(rung.against_previous)} with the dump against without",
        method=rung.method,
    )


def _coverage(context: Context) -> Iterator[Finding]:
    coverage = context.evidence.coverage
    if coverage.compared < coverage.total:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(coverage.reasons.items()))
        yield finding(
            "QD504",
            "note",
            "coverage",
            f"{coverage.total - coverage.compared} of {coverage.total} QNN tensors are not compared",
            evidence=reasons,
        )

"""Regressions as SARIF: those of a difference and of a check, at the lines of the user's code."""

from __future__ import annotations

from collections.abc import Sequence

from qnndbg.model.diff import Side
from qnndbg.model.result import Finding
from qnndbg.model.triage import Triage
from qnndbg.report.as_json import Json
from qnndbg.report.diff_pair import Pair
from qnndbg.report.diff_words import headline, page_words
from qnndbg.report.regressions import (
    REGRESSIONS,
    REGRESSIONS_PAGE,
    regressions_of_pair,
    regressions_of_triage,
)
from qnndbg.report.sarif import recorded_file, sarif_log
from qnndbg.report.triage_text import headline as triage_headline


def diff_sarif(pair: Pair) -> str:
    """What is worse in B, as a SARIF log; the lines are those of B's code."""
    diff = pair.diff
    about: dict[str, Json] = {
        "a": page_words(diff.a),
        "b": page_words(diff.b),
        "same": diff.same,
        "verdict": headline(diff),
    }
    return _log(regressions_of_pair(pair), diff.b, about, pair.version)


def triage_sarif(triage: Triage, version: str) -> str:
    """What regressed, as a SARIF log.

    Args:
        triage: of the check.
        version: of the qnndbg that recorded.
    """
    about: dict[str, Json] = {
        "recording": page_words(triage.recording),
        "baseline": page_words(triage.baseline) if triage.baseline else None,
        "passed": triage.passed,
        "verdict": triage_headline(triage),
    }
    return _log(regressions_of_triage(triage), triage.recording, about, version)


def _log(findings: Sequence[Finding], side: Side, about: dict[str, Json], version: str) -> str:
    return sarif_log(
        findings,
        version=version,
        fallback=recorded_file(side.target),
        invocation={"executionSuccessful": True},
        about=about,
        rules=REGRESSIONS,
        page=REGRESSIONS_PAGE,
    )

"""The formats of a difference and of a check that a file can hold, by name; text depends on the terminal."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from qnndbg.model.triage import Triage
from qnndbg.recording.store import Recording
from qnndbg.report.diff_csv import diff_csv
from qnndbg.report.diff_json import diff_json
from qnndbg.report.diff_junit import diff_junit
from qnndbg.report.diff_layers import DiffOrder, ordered
from qnndbg.report.diff_markdown import diff_markdown
from qnndbg.report.diff_pair import Pair
from qnndbg.report.diff_sarif import diff_sarif, triage_sarif
from qnndbg.report.triage_csv import triage_csv
from qnndbg.report.triage_json import triage_json
from qnndbg.report.triage_junit import triage_junit
from qnndbg.report.triage_markdown import triage_markdown


def _json(pair: Pair, sort: DiffOrder | None) -> str:
    return diff_json(replace(pair.diff, layers=ordered(pair.diff.layers, sort or "order")))


def _html(pair: Pair, sort: DiffOrder | None) -> str:
    from qnndbg.report.html.diff import diff_html  # takes longer to load than all others together

    return diff_html(pair, sort=sort or "status")


def _triage_html(triage: Triage, _: Recording) -> str:
    from qnndbg.report.html.triage import triage_html

    return triage_html(triage)


DIFFS: dict[str, Callable[[Pair, DiffOrder | None], str]] = {
    "json": _json,
    "md": lambda pair, _: diff_markdown(pair),
    "html": _html,
    "csv": lambda pair, sort: diff_csv(pair.diff, sort=sort or "order"),
    "junit": lambda pair, _: diff_junit(pair),
    "sarif": lambda pair, _: diff_sarif(pair),
}
"""Each takes two recordings that were compared, and the order of the layers."""

TRIAGES: dict[str, Callable[[Triage, Recording], str]] = {
    "json": lambda triage, _: triage_json(triage),
    "md": lambda triage, _: triage_markdown(triage),
    "html": _triage_html,
    "csv": lambda triage, _: triage_csv(triage),
    "junit": lambda triage, recording: triage_junit(triage, recording.comparison()),
    "sarif": lambda triage, recording: triage_sarif(triage, recording.manifest.environment.qnndbg),
}
"""Each takes a triage, and the recording that was judged."""

"""The formats of a recording's report that a file can hold, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from qnndbg.errors import RecordingError
from qnndbg.recording.store import Recording
from qnndbg.report.as_csv import csv_report
from qnndbg.report.as_json import json_report
from qnndbg.report.html import html_report
from qnndbg.report.html.page import page_from_recording
from qnndbg.report.junit import junit_report
from qnndbg.report.layers import Order
from qnndbg.report.markdown import markdown_report
from qnndbg.report.sarif import sarif_report

Format = Literal["text", "json", "md", "html", "csv", "junit", "sarif"]


def _json(recording: Recording, sort: Order | None) -> str:
    try:
        ladders = recording.layer_ladders
    except RecordingError:  # a part that a report does without, as `lost_parts` says
        ladders = ()
    return json_report(
        recording.manifest,
        recording.comparison(),
        recording.passes,
        sort=sort or "order",
        layer_ladders=ladders,
    )


def _markdown(recording: Recording, _: Order | None) -> str:
    return markdown_report(recording.manifest, recording.comparison(), recording.passes)


def _html(recording: Recording, sort: Order | None) -> str:
    return html_report(page_from_recording(recording), sort=sort or "local")


def _csv(recording: Recording, sort: Order | None) -> str:
    return csv_report(recording.comparison(), sort=sort or "order")


def _junit(recording: Recording, _: Order | None) -> str:
    return junit_report(recording.manifest, recording.comparison())


def _sarif(recording: Recording, _: Order | None) -> str:
    return sarif_report(recording.manifest, recording.comparison())


REPORTS: dict[str, Callable[[Recording, Order | None], str]] = {
    "json": _json,
    "md": _markdown,
    "html": _html,
    "csv": _csv,
    "junit": _junit,
    "sarif": _sarif,
}
"""All but text, which depends on the terminal. Each takes a recording and the order of its layers."""

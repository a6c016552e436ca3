"""``qnndbg show --format ... -o FILE`` on a recording on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qnndbg.cli.main import main
from qnndbg.cli.report_file import FORMATS
from qnndbg.model.recording import PassEvent
from qnndbg.recording.writer import Writer
from qnndbg.report.as_csv import csv_report
from qnndbg.report.formats import REPORTS
from qnndbg.report.junit import junit_report
from qnndbg.report.markdown import markdown_report
from qnndbg.report.sarif import sarif_report
from tests.golden.filled import fill
from tests.golden.formats import made

PASSES = (*made.PASSES, PassEvent(index=3, stage="executorch", name="ToOutVar"))
"""As far as the passes of a complete recording go."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    writer = Writer(tmp_path / "net.qnndbg")
    writer.manifest(made.MANIFEST)
    for event in PASSES[1:]:  # the first has a graph, which is not there
        writer.pass_event(event)
    writer.comparison(made.COMPARISON)
    fill(writer, made.MANIFEST, made.COMPARISON)
    return writer.folder


def test_each_format_of_the_command_has_a_report() -> None:
    assert set(FORMATS) == {"text", *REPORTS}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("md", markdown_report(made.MANIFEST, made.COMPARISON, PASSES[1:])),
        ("csv", csv_report(made.COMPARISON)),
        ("junit", junit_report(made.MANIFEST, made.COMPARISON)),
        ("sarif", sarif_report(made.MANIFEST, made.COMPARISON)),
    ],
)
def test_a_format_goes_to_stdout_and_nothing_else(
    name: str, expected: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(folder), "--format", name]) == 0
    printed = capsys.readouterr()
    assert printed.out == expected
    assert printed.err == ""


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_goes_to_a_file_the_same_each_time(
    name: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2):
        assert main(["show", str(folder), "--format", name, "-o", str(tmp_path / f"report{number}")]) == 0
    printed = capsys.readouterr()
    first, second = ((tmp_path / f"report{number}").read_bytes() for number in (1, 2))
    assert first == second
    assert str(tmp_path).encode() not in first
    assert printed.out == ""
    assert printed.err.splitlines()[0] == f"wrote {tmp_path / 'report1'}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.qnndbg", "report1", "report2"]


def test_a_report_takes_the_place_of_an_older_one(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.csv"
    file.write_text("old")
    assert main(["show", str(folder), "--format", "csv", "-o", str(file)]) == 0
    assert file.read_text(encoding="utf-8") == csv_report(made.COMPARISON)


def test_text_in_a_file_has_one_width_and_no_colour(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["show", str(folder), "-o", str(tmp_path / "report.txt")]) == 0
    text = (tmp_path / "report.txt").read_text(encoding="utf-8")
    assert "\x1b" not in text
    assert 80 < max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    ("place", "fact"),
    [
        ("missing/report.md", "there is no folder"),
        ("net.qnndbg/report.md", "is inside the recording"),
        (".", "is a folder"),
    ],
)
def test_a_file_that_cannot_be_is_refused_and_nothing_is_written(
    place: str, fact: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert main(["show", str(folder), "--format", "md", "-o", str(tmp_path / place)]) == 2
    error = capsys.readouterr().err
    assert fact in error
    assert "hint: " in error
    assert sorted(tmp_path.rglob("*")) == before


def test_rows_are_sorted_on_request(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(folder), "--format", "csv", "--sort", "local"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("1,forward,0,aten_hardswish_default@0")


def test_a_terminal_without_unicode_gets_characters_as_markup_has_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with open(1, "w", encoding="ascii", closefd=False) as ascii_stdout:
        monkeypatch.setattr("sys.stdout", ascii_stdout)
        assert main(["show", str(folder), "--format", "md"]) == 0
        assert main(["show", str(folder), "--format", "html"]) == 0
    printed = capfdbinary.readouterr().out
    assert printed.startswith(b"### &#10007; qnndbg")
    assert printed.isascii()


def test_what_the_json_says_of_a_file_is_json(folder: Path, tmp_path: Path) -> None:
    assert main(["show", str(folder), "--format", "json", "-o", str(tmp_path / "r.json")]) == 0
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["target"] == "net.py:make"

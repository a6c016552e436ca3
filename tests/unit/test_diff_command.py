"""``qnndbg diff`` as it is called: exit codes, formats, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path

import pytest

import qnndbg
from qnndbg.analyze.compare import compare
from qnndbg.cli.main import main
from qnndbg.cli.report_file import FORMATS
from qnndbg.recording.writer import Writer
from qnndbg.report.diff_formats import DIFFS, TRIAGES
from tests.golden.test_diff import sides
from tests.unit.lowerings import Step, edited, encoding, lowering, plain


@pytest.fixture
def places(tmp_path: Path) -> list[str]:
    """A recording, and another one with another encoding."""
    other = edited(plain(), "relu", encoding=encoding(0.7))
    graphs = {"a": plain(), "b": other}
    return [
        place(tmp_path / name, [("export", "", plain()), ("export", "P", graph), ("partition", "", graph)])
        for name, graph in graphs.items()
    ]


def place(folder: Path, steps: list[Step]) -> str:
    """Where a recording of these steps is that lacks nothing."""
    made = lowering(folder, steps)
    Writer(folder).comparison(compare(made))
    return str(folder)


def test_same(places: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", places[0], places[0]]) == 0
    assert capsys.readouterr().out.startswith("✓ same")


def test_different(places: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *places]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("✗ different: P (export) got the same graph and made another one\n")
    assert err == ""


def test_json(places: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *places, "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["same"]) == (1, False)
    assert found["first_parting"]["a"]["name"] == "P"
    (node,) = found["first_parting"]["graph"]["changed"]
    assert node["changes"] == [{"what": "scale", "a": 0.1, "b": 0.7, "count": 1}]


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_goes_to_a_file_the_same_each_time(
    form: str, places: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for option, name in (("-o", "one"), ("--report", "two")):
        assert main(["diff", *places, "--format", form, option, str(tmp_path / name)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [f"wrote {tmp_path / name}" for name in ("one", "two")]
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert str(tmp_path).encode() not in (tmp_path / "one").read_bytes()


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_is_success_in_every_format(
    form: str, places: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", places[0], places[0], "--format", form]) == 0
    assert capsys.readouterr().out


def test_each_format_of_the_command_has_a_report() -> None:
    assert set(FORMATS) == {"text", *DIFFS} == {"text", *TRIAGES}


def test_a_report_is_not_written_into_either_recording(
    places: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in places:
        assert main(["diff", *places, "--format", "md", "-o", f"{folder}/diff.md"]) == 2
        assert "is inside the recording" in capsys.readouterr().err
        assert not Path(folder, "diff.md").exists()


def test_layers_are_few_or_all_and_sorted_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    places = [str(recording.folder) for recording in sides(tmp_path)]
    rows = "regressed|worse|new|fixed"

    def shown(*options: str) -> list[str]:
        main(["diff", *places, *options])  # exits with 3, as these recordings lack their last stages
        return re.findall(rf"^ +(?:{rows}) +(\w+)_0@0", capsys.readouterr().out, re.MULTILINE)

    assert shown() == ["act", "sum", "last", "cast"]
    assert shown("--layers", "2") == ["act", "sum"]
    assert shown("--sort", "order") == ["act", "cast", "sum", "last"]
    assert shown("--sort", "accumulated", "--layers", "3") == ["act", "sum", "last"]
    main(["diff", *places, "--format", "csv", "--sort", "status"])
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["status"] for row in table] == ["regressed", "worse", "worse", "new"]
    for senseless in (["--layers", "0"], ["--layers", "2", "--all"], ["--sort", "effect"]):
        assert main(["diff", *places, *senseless]) == 2


def test_usage(places: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", places[0]]) == 2
    assert main(["diff", *places, "--format", "xml"]) == 2
    assert "qnndbg: error:" in capsys.readouterr().err


def test_what_is_no_recording(places: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", places[0], str(tmp_path / "missing")]) == 3
    assert "there is no recording" in capsys.readouterr().err


def test_recording_with_a_damaged_graph(places: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for graph in Path(places[1], "graphs").iterdir():
        graph.write_bytes(b"no gzip")
    assert main(["diff", *places]) == 3
    assert "cannot be unpacked" in capsys.readouterr().err


def test_damaged_recording_is_compared_as_far_as_it_goes(
    places: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    events = Path(places[0], "passes.jsonl")
    events.write_bytes(b"".join(events.read_bytes().splitlines(keepends=True)[:-1]))
    assert main(["diff", *places]) == 3
    out, err = capsys.readouterr()
    assert out.startswith("✗ different")
    assert err.startswith(f"qnndbg: error: {places[0]} is damaged: passes.jsonl ends too early\nhint: ")


def test_names_in_a_recording_do_not_command_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "wipe\x1b[2J\x07\x9b1A\u202eend"
    graphs = {"a": plain(), "b": edited(plain(), "relu", encoding=encoding(0.7))}
    places = [
        place(tmp_path / name, [("export", "", plain()), ("partition", hostile, graph)])
        for name, graph in graphs.items()
    ]
    assert main(["diff", *places, "--all"]) == 1
    out, _ = capsys.readouterr()
    assert "by wipe[2J1Aend\n" in out
    assert not set(out) & set("\x1b\x07\x9b\u202e")


def test_terminal_without_unicode(places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:

    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["diff", *places]) == 1
    out.seek(0)
    assert out.read().startswith("x different")


def test_from_python(places: list[str]) -> None:
    assert qnndbg.diff(places[0], qnndbg.open_recording(places[0])).same
    assert not qnndbg.diff(*places).same

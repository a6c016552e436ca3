"""``qnndbg diff`` as it is called: exit codes, formats, and what it refuses."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

import qnndbg
from qnndbg.cli.main import main
from tests.unit.lowerings import edited, encoding, lowering, plain


@pytest.fixture
def places(tmp_path: Path) -> list[str]:
    """A recording, and another one with another encoding."""
    other = edited(plain(), "relu", encoding=encoding(0.7))
    graphs = {"a": plain(), "b": other}
    return [
        str(lowering(tmp_path / name, [("export", "", plain()), ("export", "P", graph)]).folder)
        for name, graph in graphs.items()
    ]


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


def test_terminal_without_unicode(places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:

    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["diff", *places]) == 1
    out.seek(0)
    assert out.read().startswith("x different")


def test_from_python(places: list[str]) -> None:
    assert qnndbg.diff(places[0], qnndbg.open_recording(places[0])).same
    assert not qnndbg.diff(*places).same

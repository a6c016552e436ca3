"""``qnndbg show`` on recordings on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qnndbg.cli.main import main
from qnndbg.model.recording import PassEvent
from qnndbg.model.result import Coverage
from qnndbg.recording.writer import Writer

GOLDEN = Path(__file__).parent


def write(folder: Path, recorded: Any) -> str:
    manifest, comparison, passes = recorded
    writer = Writer(folder)
    writer.manifest(manifest)
    for event in passes:
        writer.pass_event(event)
    if manifest.complete:
        writer.pass_event(PassEvent(index=len(passes), stage="partition", name=""))
    if comparison:
        writer.comparison(comparison)
    return str(folder)


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "JUPYTER_COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def test_text_is_the_report_and_nothing_else(
    mixed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", write(tmp_path / "mixed.qnndbg", mixed)]) == 0
    printed = capsys.readouterr()
    assert printed.out == (GOLDEN / "mixed-80.txt").read_text(encoding="utf-8")
    assert printed.err == ""


def test_json_is_the_report_and_nothing_else(
    mixed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", write(tmp_path / "mixed.qnndbg", mixed), "--format", "json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads((GOLDEN / "mixed.json").read_text(encoding="utf-8"))
    assert printed.err == ""


def test_json_is_sorted_on_request(mixed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path / "mixed.qnndbg", mixed)
    assert main(["show", folder, "--format", "json", "--sort", "local"]) == 0
    layers = json.loads(capsys.readouterr().out)["layers"]
    assert [layer["op"] for layer in layers[:2]] == [
        "aten.gelu.default",
        "aten.native_layer_norm.default",
    ]
    assert [layer["standing"] for layer in layers[:3]] == ["made here", "made here", None]


def test_fewer_layers_say_how_many_are_left(
    mixed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", write(tmp_path / "mixed.qnndbg", mixed), "--layers", "2"]) == 0
    printed = capsys.readouterr().out
    assert "2 of 12, by local error; --all shows all" in printed
    assert "aten_add_tensor@0" not in printed


def test_a_recording_that_ended_early_is_shown(
    failed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", write(tmp_path / "failed.qnndbg", failed)]) == 0
    assert capsys.readouterr().out.startswith("✗ the recording ends early: lower failed")


def test_nothing_compared_has_its_own_exit_code(
    mixed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = replace(
        mixed.comparison, layers=(), coverage=Coverage(compared=0, total=4, reasons={"lost": 4})
    )
    folder = write(tmp_path / "empty.qnndbg", (mixed.manifest, nothing, ()))
    assert main(["show", folder]) == 5
    printed = capsys.readouterr()
    assert "0 of 4 QNN tensors compared" in printed.out
    assert "no QNN tensor could be compared" in printed.err


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_a_senseless_number_of_layers_is_refused(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "x.qnndbg", "--layers", count]) == 2
    assert "layers" in capsys.readouterr().err


def test_what_is_no_recording_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(tmp_path)]) == 3
    assert "hint:" in capsys.readouterr().err


def test_a_terminal_without_unicode_gets_what_it_can_show(
    mixed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    folder = write(tmp_path / "mixed.qnndbg", mixed)
    with open(1, "w", encoding="ascii", closefd=False) as ascii_stdout:
        monkeypatch.setattr("sys.stdout", ascii_stdout)
        assert main(["show", folder]) == 0
        assert main(["show", folder, "--format", "json"]) == 0
    printed = capfdbinary.readouterr().out
    assert b"^ backend: 98% of the error of the output is made at gelu" in printed
    assert b"?" not in printed

"""``qnndbg show`` on recordings on disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qnndbg.cli.main import main
from qnndbg.cli.report_file import FORMATS
from qnndbg.model.graph import Graph
from qnndbg.model.recording import PassEvent, Stage
from qnndbg.model.result import Coverage
from qnndbg.recording.writer import Writer
from tests.golden.filled import fill

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
        fill(writer, manifest, comparison)
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
    made = json.loads((GOLDEN / "mixed.json").read_text(encoding="utf-8"))
    ladder = {"method": "forward", "sample": 0, "rungs": [], "layers": []}
    assert json.loads(printed.out) == made | {"layer_ladders": [ladder]}
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
    assert "2 of 12, by local error over its floor; --all shows all" in printed
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


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ("attributions", "1 of 1 attributions are missing in attributions/"),
        ("runs", "10 of 10 runs are missing in runs/: annotation, eager, edge, export, htp, htp-given,"),
        ("runs/htp.json", "1 of 10 runs are missing in runs/: htp"),
        ("layer-ladders", "1 of 1 ladders of layers are missing in layer-ladders/"),
        ("tensors", "1 of 1 tensors are missing or cut short in tensors/"),
    ],
)
def test_what_the_report_was_made_from_and_is_gone_is_a_warning(
    gone: str, said: str, mixed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(write(tmp_path / "mixed.qnndbg", mixed))
    if (folder / gone).is_dir():
        shutil.rmtree(folder / gone)
    else:
        (folder / gone).unlink()
    assert main(["show", str(folder)]) == 0
    printed = capsys.readouterr()
    assert printed.out == (GOLDEN / "mixed-80.txt").read_text(encoding="utf-8")
    (line,) = printed.err.splitlines()
    assert line.startswith(f"qnndbg: warning: {said}")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("part", ["attributions", "runs", "layer-ladders"])
def test_a_part_that_is_damaged_is_a_warning(
    part: str, form: str, mixed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(write(tmp_path / "mixed.qnndbg", mixed))
    file = sorted((folder / part).iterdir())[0]
    file.write_text('{"half": \x1b[2J', encoding="utf-8")
    assert main(["show", str(folder), "--format", form]) == 0
    printed = capsys.readouterr()
    assert "gelu" in printed.out
    (line,) = printed.err.splitlines()
    assert line.startswith(
        f"qnndbg: warning: mixed.qnndbg/{part}/{file.name} does not hold what a recording must hold"
    )
    assert "\x1b" not in line


def damage(folder: Path, what: str) -> None:
    """Take away or cut one part of a recording."""
    passes = folder / "passes.jsonl"
    if what == "graphs":
        shutil.rmtree(folder / "graphs")
    elif what == "one graph":
        next((folder / "graphs").iterdir()).unlink()
    elif what == "comparison":
        (folder / "comparison.json").unlink()
    elif what == "passes":
        passes.unlink()
    else:
        data = passes.read_bytes()
        passes.write_bytes(data[:-5] if what == "half a line" else b"".join(data.splitlines(True)[:3]))


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("graphs", "2 of 2 graphs are missing in graphs/"),
        ("one graph", "1 of 2 graphs are missing in graphs/"),
        ("passes", "passes.jsonl is missing"),
        ("half a line", "passes.jsonl ends too early"),
        ("all but three lines", "passes.jsonl ends too early"),
        ("comparison", "comparison.json is missing"),
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_damage_is_said_below_what_is_left(
    what: str, said: str, form: str, mixed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mixed.qnndbg"
    write(folder, mixed._replace(passes=()))
    writer = Writer(folder)
    (folder / "passes.jsonl").unlink()
    graphs = [writer.graph(Graph(nodes=(), outputs=(), stored_layout=stored)) for stored in (False, True)]
    stages: tuple[Stage, ...] = ("export", "edge", "transform", "partition")
    for index, stage in enumerate(stages):
        writer.pass_event(PassEvent(index=index, stage=stage, name="", after=graphs[index % 2]))
    assert main(["show", str(folder), "--format", form]) == 0
    whole = capsys.readouterr().out
    damage(folder, what)
    assert main(["show", str(folder), "--format", form]) == 3
    printed = capsys.readouterr()
    assert (printed.out == whole) or what not in {"graphs", "one graph"}
    assert printed.out.strip()
    assert printed.err.startswith(f"qnndbg: error: {folder} is damaged: {said}\nhint: ")


def test_what_was_done_to_inputs_is_said_with_method_and_sample(
    mixed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (given,) = (one for one in mixed.manifest.inputs if one.note)
    given = replace(given, name="input 0", note="made contiguous")
    alone = mixed._replace(manifest=replace(mixed.manifest, inputs=(given,)))
    samples = (replace(given, note=""), replace(given, sample=1))
    sampled = mixed._replace(manifest=replace(mixed.manifest, inputs=samples))
    methods = (*samples, replace(given, method="decode"))
    several = mixed._replace(manifest=replace(mixed.manifest, inputs=methods))
    expected = (
        (alone, ["input 0: made contiguous"]),
        (sampled, ["sample 1 input 0: made contiguous"]),
        (several, ["forward sample 1 input 0: made contiguous", "decode sample 0 input 0: made contiguous"]),
    )
    for number, (recorded, notes) in enumerate(expected):
        main(["show", write(tmp_path / f"{number}.qnndbg", recorded)])
        printed = capsys.readouterr().out
        assert [line.partition("• ")[2] for line in printed.splitlines() if "contiguous" in line] == notes

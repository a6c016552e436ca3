"""Recordings of which parts are missing, and names that are meant to do harm."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from qnndbg.analyze.compare import compare
from qnndbg.model.recording import FailingNode, Failure, Fallback
from qnndbg.recording.store import Recording, open_recording
from qnndbg.recording.writer import Writer
from tests.tui.conftest import Drive, Driver

EVERYWHERE = (
    "2",
    "right_square_bracket",
    "3",
    "enter",
    "t",
    "escape",
    "w",
    "escape",
    "4",
    "enter",
    "l",
    "5",
    "1",
)


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy.qnndbg"))


@pytest.mark.parametrize("lost", ["graphs", "tensors", "runs", "qnn", "attributions"])
def test_a_part_that_is_missing_is_said_and_all_else_is_shown(drive: Drive, copy: Path, lost: str) -> None:
    for path in (copy / lost).iterdir():
        path.unlink()

    async def script(ui: Driver) -> None:
        await ui.press(*EVERYWHERE)
        assert "86% of the error" in ui.text()
        assert ("the recording is damaged" in ui.text()) == (lost == "graphs")

    drive(script, recording=open_recording(copy))


def test_a_lowering_that_failed_is_told_from_its_first_page(drive: Drive, copy: Path) -> None:
    (copy / "comparison.json").unlink()
    writer = Writer(copy)
    failure = Failure(step="lower", error="the HTP refuses aten.gelu.default", hint="keep it on the CPU")
    writer.manifest(replace(writer.read_manifest(), complete=False, failure=failure))

    async def script(ui: Driver) -> None:
        assert "lower failed: the HTP refuses aten.gelu.default" in ui.text()
        assert "keep it on the CPU" in ui.text()
        await ui.press(*EVERYWHERE)

    drive(script, recording=open_recording(copy))


def fail(copy: Path, failure: Failure, log: str = "") -> Recording:
    for part in ("runs", "qnn", "attributions"):
        for path in (copy / part).iterdir():
            path.unlink()
    writer = Writer(copy)
    writer.manifest(replace(writer.read_manifest(), complete=False, failure=failure))
    if log:
        writer.log("worker").write_text(log, encoding="utf-8")
    writer.comparison(compare(open_recording(copy)))
    return open_recording(copy)


def test_a_failed_recording_leads_to_the_node_the_stage_and_the_log(drive: Drive, copy: Path) -> None:
    node = FailingNode(name="nowhere, aten_gelu_3", op="aten.gelu.default", source="net.py:6")
    failure = Failure(step="lower", error="the HTP refuses it", stage="preprocess", node=node)
    log = "".join(f"line {i}\n" for i in range(100)) + f"Missing operator {'x' * 100} end\n"
    recording = fail(copy, failure, log)

    async def script(ui: Driver) -> None:
        await ui.press("enter")
        assert "● aten_gelu_3  " in ui.text()
        await ui.press("3")
        assert "nothing was compared: the step lower failed" in ui.text()
        assert "no layer" not in ui.text()
        await ui.press("2")
        assert "✗ failed: the HTP refuses it" in ui.line("preprocess #0")
        await ui.press("L")
        assert ui.lines()[-3].endswith(" end")
        await ui.press("1", "slash")
        await ui.type("worker.log")
        await ui.press("enter", "enter")
        assert "Worker log" in ui.lines()[0]

    drive(script, size=(100, 30), recording=recording)


def test_a_failure_without_a_node_leads_to_the_op_that_the_cpu_lacks_or_to_the_stage(
    drive: Drive, copy: Path
) -> None:
    writer = Writer(copy)
    manifest = writer.read_manifest()
    fallback = Fallback(node="aten_relu_2", op="aten.relu.default", reason="not supported")
    methods = (replace(manifest.methods[0], fallbacks=(fallback,)),)
    writer.manifest(replace(manifest, methods=methods))
    recording = fail(copy, Failure(step="htp", error="no kernel"))

    async def script(ui: Driver) -> None:
        await ui.press("enter")
        assert "● aten_relu_2  " in ui.text()

    drive(script, recording=recording)
    recording = fail(copy, Failure(step="lower", error="no graph", stage="transform"))

    async def at_stage(ui: Driver) -> None:
        await ui.press("enter")
        await ui.pilot.pause(0.3)
        assert "of transform" in ui.text()

    drive(at_stage, recording=recording)


def test_names_of_a_stranger_reach_the_terminal_as_text(drive: Drive, copy: Path) -> None:
    evil = "\x1b]0;evil\x07[bold]net[/bold]"
    writer = Writer(copy)
    writer.manifest(replace(writer.read_manifest(), notes=(evil,), target=evil))

    async def script(ui: Driver) -> None:
        await ui.press("end")
        assert "\x1b" not in ui.text()
        assert "\x07" not in ui.text()
        assert "[bold]net[/bold]" in ui.text()

    drive(script, recording=open_recording(copy))

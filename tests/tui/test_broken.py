"""Recordings of which parts are missing, and names that are meant to do harm."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from qnndbg.model.recording import Failure
from qnndbg.recording.store import open_recording
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

"""Two recordings side by side: the second lacks the fault of the first one's hardswish."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from qnndbg.recording.store import Recording, open_recording
from tests.tui.conftest import Drive, Driver
from tests.tui.recorded import make


@pytest.fixture(scope="session")
def mended(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    faults = {8: ((0, 5, 0, 3), 40)}
    return open_recording(make(tmp_path_factory.mktemp("two") / "mended.qnndbg", faults=faults))


def test_the_layer_that_was_mended_is_named(drive: Drive, mended: Recording) -> None:
    async def script(ui: Driver) -> None:
        assert "A net.qnndbg · B mended.qnndbg" in ui.lines()[0]
        assert "made  56.2 → =" in ui.line("fixed     aten_hardswish_1@0")
        assert "only the HTP's numbers differ" in ui.text()

    drive(script, size=(100, 50), other=mended)


def test_a_line_opens_on_either_side_and_b_crosses_over(drive: Drive, mended: Recording) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("slash")
        await ui.type("hardswish_1")
        await ui.press("enter", "a")
        assert "A net.qnndbg" in ui.lines()[0]
        assert "made here        100" in ui.text()
        await ui.press("b")
        assert "B mended.qnndbg" in ui.lines()[0]
        assert "made here          0" in ui.text()
        await ui.press("escape", "escape", "enter")
        assert "B mended.qnndbg" in ui.lines()[0]
        await ui.press("2", "b")
        assert "A net.qnndbg" in ui.lines()[0]
        await ui.press("6")
        assert ui.lines()[0].startswith(" Diff ")

    drive(script, size=(100, 50), other=mended)


def test_b_goes_to_the_same_page_and_the_same_row(drive: Drive, mended: Recording) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("3", "down", "down")
        assert "B mended.qnndbg" in ui.lines()[0]
        row = ui.app.screen.sheet.line.place  # type: ignore[attr-defined]
        await ui.press("b")
        assert ui.lines()[0].startswith(" Diff › Layers")
        assert "A net.qnndbg" in ui.lines()[0]
        assert ui.app.screen.sheet.line.place == row  # type: ignore[attr-defined]

    drive(script, size=(100, 50), other=mended)


def test_the_layers_that_differ_are_exported(
    drive: Drive, mended: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def script(ui: Driver) -> None:
        await ui.press("x")

    drive(script, other=mended)
    (path,) = tmp_path.iterdir()
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    assert {row["tensor A"] for row in rows if row["status"] == "fixed"} == {"aten_hardswish_1@0"}


def test_a_recording_does_not_differ_from_itself(drive: Drive, folder: Path) -> None:
    async def script(ui: Driver) -> None:
        assert "✓ same" in ui.lines()[1]

    drive(script, other=open_recording(folder))

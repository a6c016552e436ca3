"""Every screen as it was drawn when somebody looked at it, at two sizes.

``UPDATE_GOLDEN=1 pytest tests/tui/test_screens.py`` draws them anew; open the files in a browser before they
are committed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qnndbg.tui.jobs import Job, Step
from qnndbg.tui.state import Session
from tests.tui.conftest import Drive, Driver

FOLDER = Path(__file__).parent / "screens"
SIZES = ((80, 24), (120, 40))
SCREENS: dict[str, tuple[str, ...]] = {
    "overview": (),
    "passes": ("2", "right_square_bracket"),
    "layers": ("3", "right_square_bracket"),
    "layer": ("enter",),
    "node": ("enter", "w", "right"),
    "graph": ("4", "j", "j"),
    "findings": ("5",),
    "tensor": ("enter", "t", "right_square_bracket", "j"),
    "help": ("3", "question_mark"),
    "jobs": ("7", "j"),
}


def jobs_of(session: Session) -> list[Job]:
    """A recording that went well, one that failed, one that was cancelled, and a search; all have ended."""
    made = [Step("export", 0.0, 1.5), Step("lower", 1.5, 9.0, passes=126), Step("compare", 9.0, 12.25)]
    begun = [Step("export", 0.0, 1.5), Step("lower", 1.5, 135.0, passes=41)]
    words = ("record", "example:digits", "--precision", "8a8w", "-o", "digits-8a8w-2.qnndbg")
    probes = [
        {"position": position, "stage": stage, "partition": partition, "name": name, "sqnr_db": db, "left": 0}
        for position, stage, partition, name, db in (
            (0, "annotation", None, "", 90.2),
            (71, "transform", None, "Pass", 88.1),
            (86, "transform", None, "BreakNumbers", 20.4),
            (95, "preprocess", 0, "Pass", 20.4),
        )
    ]
    error = "qnndbg: error: the pass LayoutTransform failed: no layout for aten.unfold.default of 3 axes"
    return [
        Job(words, session, "done", 0, made, wrote=[session.recording.folder], began=0.0, ended=12.25),
        Job(
            words, session, "failed", 3, begun, began=0.0, ended=135.0,
            said=[error, "hint: keep it off the HTP"],
        ),
        Job(words, session, "cancelled", 130, begun[:1], began=0.0, ended=1.5),
        Job(
            ("bisect", "net.qnndbg", "--output", "0", "--limit", "40"), session, "done", 0,
            probes=probes, found=86, began=0.0, ended=7.5,
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_looks_as_it_did(
    drive: Drive,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    size: tuple[int, int],
) -> None:
    path = FOLDER / f"{name}-{size[0]}x{size[1]}.svg"

    async def script(ui: Driver) -> None:
        if name == "jobs":
            monkeypatch.chdir(folder.parent)
            ui.app.jobs += jobs_of(ui.app.session)
        await ui.press(*SCREENS[name])
        await ui.pilot.pause(0.3)  # a pass is read once the cursor rests on it
        await ui.settle()
        drawn = ui.app.export_screenshot(title=name) + "\n"
        if "UPDATE_GOLDEN" in os.environ:
            path.write_text(drawn, encoding="utf-8")
        same = drawn == path.read_text(encoding="utf-8")
        (tmp_path / path.name).write_text(drawn, encoding="utf-8")
        assert same, f"{path.name} looks different: see {tmp_path / path.name}, and below\n{ui.text()}"

    drive(script, size=size)


@pytest.mark.parametrize("width", [40, 250])
def test_no_line_is_wider_than_the_screen(drive: Drive, width: int) -> None:
    async def script(ui: Driver) -> None:
        for keys in SCREENS.values():
            await ui.press("1", *keys)
            assert max(map(len, ui.lines())) <= width
            await ui.press("escape", "escape", "escape")

    drive(script, size=(width, 24))


def test_signs_tell_what_colours_tell(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def script(ui: Driver) -> None:
        await ui.press("3")
        assert ui.app.no_color
        assert sum(line.startswith("▲") for line in ui.lines()) == 2
        assert sum(line.startswith("↓") for line in ui.lines()) == 7

    drive(script)

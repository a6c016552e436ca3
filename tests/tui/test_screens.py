"""Every screen as it was drawn when somebody looked at it, at two sizes.

``UPDATE_GOLDEN=1 pytest tests/tui/test_screens.py`` draws them anew; open the files in a browser before they
are committed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
}


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_looks_as_it_did(drive: Drive, tmp_path: Path, name: str, size: tuple[int, int]) -> None:
    path = FOLDER / f"{name}-{size[0]}x{size[1]}.svg"

    async def script(ui: Driver) -> None:
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

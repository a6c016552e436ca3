"""What a user sets out to do, key by key, on a recording whose faults are known."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from textual.command import CommandPalette

from qnndbg.report import units
from qnndbg.tui.words import clipped
from tests.tui.conftest import Drive, Driver
from tests.tui.recorded import FAULTS, STEP


def test_the_first_screen_says_who_is_to_blame(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        top = "\n".join(ui.lines()[:6])
        assert "86% of the error" in top
        assert "hardswish" in top
        assert "backend               100 %" in ui.text()  # 55.6 dB alone against 90.2 dB of the quantiser

    drive(script)


@pytest.mark.parametrize("size", [(80, 40), (120, 40)])
def test_a_source_is_named_with_the_line_of_code(drive: Drive, size: tuple[int, int]) -> None:
    async def script(ui: Driver) -> None:
        at = next(i for i, line in enumerate(ui.lines()) if "Sources" in line)
        assert "net.py:4" in "\n".join(ui.lines()[at : at + 5])
        assert not any("…" in line for line in ui.lines()[at : at + 5])

    drive(script, size=size)


def test_enter_on_the_verdict_goes_to_the_culprit(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("enter")
        assert ui.lines()[0].startswith(" Overview › hardswish encoder.block0.hardswish")
        assert "aten.hardswish.default → QNN HardSwish" in ui.lines()[1]

    drive(script)


def test_the_worst_element_is_named_with_both_values(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("enter")
        index, steps = FAULTS[1]
        line = ui.line(f"[{','.join(map(str, index))}]").replace("−", "-").split()
        cpu, htp, error, lsb = map(float, line[1:5])
        assert htp - cpu == pytest.approx(steps * STEP)
        assert error == pytest.approx(steps * STEP)
        assert lsb == steps

    drive(script, size=(100, 50))


def test_the_line_of_the_users_code_is_shown(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("enter")
        assert ui.line("▶").split("▶")[1].split() == ["4", "y", "=", "F.hardswish(y)"]
        assert "y = block.convolution(x)" in ui.text()

    drive(script)


def test_the_channel_with_the_error_is_named(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("enter")
        rms = 100 * STEP / 16**0.5  # one element of the sixteen of channel 3
        assert f"most in 3: RMS {rms:.5g}" in ui.line("by channel")

    drive(script, size=(100, 40))


def test_a_layer_is_followed_through_the_stages(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("enter")
        stages = {
            line.split()[0]: line.split()[1] for line in ui.lines() if " f32 " in line or " u16 " in line
        }
        assert stages == {
            "annotation": "hardswish_1",
            "export": "hardswish_1",
            "transform": "aten_hardswish_1",
            "preprocess": "aten_hardswish_1",
            "qnn": "aten_hardswish_1@0",
            **{word: stages[word] for word in stages if word.startswith("aten.")},
        }

    drive(script, size=(100, 50))


def test_a_tensor_is_shown_raw_real_and_as_a_difference(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("enter", "t", "w")  # w goes to the worst element
        assert ui.lines()[-2] == " the largest error is at [0, 3, 2, 1]"
        await ui.press("down")
        assert "htp − cpu (real) · slice [0, 3, :, :]" in ui.text()
        row = ui.lines()[4].split()  # below the breadcrumb and the numbers of the columns: row 2
        assert row == ["2", "0", "1", "0", "0"]  # 100 steps of 0.01 at column 1
        await ui.press("v", "v")
        assert " cpu (real)" in ui.text() or " local (real)" in ui.text()
        while " htp (" not in ui.text():
            await ui.press("v")
        real = float(ui.lines()[4].split()[2].replace("−", "-"))
        await ui.press("r")
        assert int(ui.lines()[4].split()[2]) == round(real / STEP) + 1000

    drive(script)


def test_a_minus_that_is_typed_finds_negative_numbers(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("enter", "t", "v", "v", "right_square_bracket")
        shown = [(i, word) for i, line in enumerate(ui.lines()[2:6]) for word in line.split() if "−" in word]
        row, number = shown[-1]
        await ui.press("slash", "minus", *(c if c != "." else "full_stop" for c in number[1:]), "enter")
        assert ui.app.screen.sheet.cursor == row  # type: ignore[attr-defined]
        assert "no line has" not in ui.text()

    drive(script)


def test_a_rung_of_the_ladder_opens_its_output(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        while not ui.app.screen.sheet.line.text.plain.lstrip().startswith("htp-tapped"):  # type: ignore[attr-defined]
            await ui.press("j")
        await ui.press("enter")
        assert "Tensor output 0 of htp-tapped" in ui.lines()[0]
        assert "htp-tapped − reference" in ui.text()

    drive(script)


def test_findings_lead_to_where_they_hold(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("5", "slash")
        await ui.type("QD401")
        await ui.press("enter", "enter")
        await ui.pilot.pause(0.3)
        await ui.settle()
        assert ui.lines()[0].startswith(" Overview › Findings › Passes")
        assert "BreakNumbers  1 made" in ui.text()

    drive(script, size=(100, 40))


def test_the_command_palette_goes_to_a_layer(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("ctrl+p")
        await ui.type("gelu_8")
        await ui.pilot.pause(0.3)
        while isinstance(ui.app.screen, CommandPalette):  # one Enter to choose, one to go
            await ui.press("enter")
        assert "aten.gelu.default → QNN Gelu" in ui.text()

    drive(script)


def test_help_lists_the_keys_that_work_here(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("3", "question_mark")
        text = ui.text()
        assert "Filter" in text
        assert "Next source" in text
        assert "Copy the line" in text
        await ui.press("escape")
        assert ui.lines()[0].startswith(" Overview › Layers")

    drive(script, size=(80, 60))


def test_a_line_is_copied_as_text_and_as_json(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("3", "right_square_bracket", "c")
        assert ui.app.clipboard.startswith("▲")
        assert "aten_hardswish_1@0" in ui.app.clipboard
        await ui.press("J")
        data = json.loads(ui.app.clipboard)
        assert (data["tensor"], data["local"]["max_lsb"]) == (
            "aten_hardswish_1@0",
            pytest.approx(100, abs=1e-3),
        )

    drive(script)


def test_what_the_screen_cuts_is_copied_whole(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("3", "right_square_bracket", "c")
        line = ui.app.clipboard.split()
        assert "aten_hardswish_1@0" in line
        assert "encoder.block0.hardswish" in line  # 80 columns have no room for modules
        assert "net.py:4" in line
        await ui.press("C")
        titles, first, *rest = ui.app.clipboard.splitlines()
        assert titles.split()[:4] == ["#", "tensor", "op", "module"]
        assert titles.index("module") == first.index("encoder.")
        assert len(rest) == 9
        assert "…" not in ui.app.clipboard
        await ui.press("2", "right_square_bracket")
        await ui.pilot.pause(0.3)
        await ui.press("tab", "j", "c")
        assert "aten_hardswish_1 = aten.hardswish(aten_convolution_0) f32 1×8×4×4" in ui.app.clipboard

    drive(script)


def test_the_table_is_exported_as_csv(drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def script(ui: Driver) -> None:
        await ui.press("3", "x", "x")

    drive(script)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net-layers-2.csv", "net-layers.csv"]
    rows = list(csv.DictReader((tmp_path / "net-layers.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 10
    assert {row["tensor"]: row["loc LSB"] for row in rows if row["loc LSB"] != "0"} == {
        "aten_hardswish_1@0": "100",
        "aten_gelu_8@0": "40",
    }


def test_escape_goes_back_to_where_one_was(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("3", "right_square_bracket", "enter", "w", "escape", "escape", "enter")
        assert "aten.hardswish.default" in ui.lines()[1]  # the cursor is where it was
        await ui.press("escape", "escape", "escape", "escape")
        assert ui.lines()[0].startswith(" Overview")

    drive(script)


def test_a_page_is_found_by_its_number_as_it_was_left(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("3", "f")
        await ui.type("op:gelu")
        await ui.press("enter", "s", "s", "down")
        left = ui.lines()
        await ui.press("1", "3")
        assert ui.lines() == left
        await ui.press("enter", "5", "3")
        assert ui.lines() == left

    drive(script, size=(100, 24))


def test_escape_behind_a_number_goes_to_the_page_one_came_from(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("3", "right_square_bracket", "enter", "5", "escape")
        assert "aten.hardswish.default" in ui.lines()[1]
        await ui.press("1")
        assert ui.lines()[0].startswith(" Overview  ")
        await ui.press("escape")
        assert "aten.hardswish.default" in ui.lines()[1]
        await ui.press("escape", "escape", "escape")
        assert ui.lines()[0].startswith(" Overview  ")

    drive(script)


def test_what_is_said_stands_below_the_body_until_the_next_key(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("3", "c", "J")
        assert ui.lines()[-2].startswith(" copied the data: ")
        assert "10 of 11 shown" not in ui.text()
        await ui.press("f")
        assert "copied" not in ui.text()
        assert ui.lines()[-2].startswith(" filter")
        await ui.press("escape", "c", "4")
        assert "copied" not in ui.text()
        ui.app.say(f"wrote {'x' * 100} to the end")
        await ui.settle()
        assert ui.lines()[-2].endswith(" to the end")  # in two lines

    drive(script)


def test_a_theme_changes_at_once(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        before = ui.app.theme
        await ui.press("T")
        assert ui.app.theme != before
        assert "hardswish" in ui.text()

    drive(script)


def test_letters_that_take_two_cells_are_counted_so() -> None:
    assert clipped("漢字漢字", 5, units.clip_right) == "漢字…"
    assert clipped("漢字漢字", 5, units.clip_left) == "…漢字"
    assert clipped("encoder", 5, units.clip_right) == "enco…"
    assert clipped("漢字", 4, units.clip_right) == "漢字"

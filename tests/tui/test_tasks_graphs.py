"""What a user does on the pages of passes and graphs, key by key."""

from __future__ import annotations

from tests.tui.conftest import Drive, Driver
from tests.tui.recorded import STEP


def test_the_pass_that_changed_the_numbers_is_marked_and_shown(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("2")
        assert "BreakNumbers" in ui.line("≠ numbers: export → transform")
        await ui.press("right_square_bracket")
        await ui.pilot.pause(0.3)
        await ui.settle()
        assert "BreakNumbers  1 made  of transform" in ui.text()
        assert "+ clamp_0 = aten.clamp(x, 0, 6) f32 1×8×4×4" in ui.text()

    drive(script, size=(120, 40))


def test_a_stage_unfolds_to_all_of_its_passes(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("2")
        assert "Quiet36" not in ui.text()
        await ui.press("home", "enter", "z", "z")
        await ui.press(*["pagedown"] * 3)
        assert "Quiet36" in ui.text()

    drive(script, size=(100, 50))


def test_what_a_pass_changed_of_a_node_is_named(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("2", "enter")
        assert "AnnotateQuantAttrs  10 changed" in ui.text()
        assert "encoding: –" in ui.text()
        assert f"encoding: {STEP} zp 1000" in ui.text()

    drive(script, size=(140, 40))


def test_the_edge_graph_is_one_key_away(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("2", "e")
        assert ui.lines()[0].startswith(" Overview › Passes › Graph transform")
        assert "aten_convolution_0" in ui.text()
        await ui.press("escape")
        assert ui.lines()[0].startswith(" Overview › Passes ")

    drive(script)


def test_a_graph_is_walked_with_the_arrow_keys_and_linked_to_the_other_stages(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("enter", "w")
        assert "● aten_hardswish_1@0  HardSwish" in ui.text()
        await ui.press("right")
        assert "● aten_relu_2@0  Relu" in ui.text()
        await ui.press("less_than_sign")
        assert "● aten_relu_2  aten.relu.default" in ui.text()
        assert "[preprocess #0]" in ui.text()
        await ui.press("left", "left")
        assert "● aten_convolution_0 " in ui.text()
        await ui.press("l")
        assert "aten.convolution.default → QNN Conv2d" in ui.text()

    drive(script)


def test_the_last_stage_is_not_followed_by_the_first(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("enter", "w")
        assert "[qnn #0]" in ui.text()
        await ui.press(*["greater_than_sign"] * 2)
        assert "this is the last stage that has this value; < goes the other way" in ui.text()
        await ui.press("j")
        assert "[executorch]" in ui.text()
        await ui.press(*["less_than_sign"] * 8)
        assert "this is the first stage that has this value; > goes the other way" in ui.text()

    drive(script)

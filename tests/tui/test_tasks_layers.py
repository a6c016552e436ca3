"""What a user does on the table of layers, key by key."""

from __future__ import annotations

from tests.tui.conftest import Drive, Driver


def column(lines: list[str], first: str) -> list[str]:
    """The words that begin with a text, one a line, in their order."""
    return [word for line in lines for word in line.split() if word.startswith(first)]


def test_the_table_tells_errors_made_from_errors_inherited(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("3")
        rows = [line for line in ui.lines() if "aten_" in line and line[0] != " "]
        signs = {word: row[0] for row in rows for word in row.split() if word.startswith("aten_")}
        assert [name for name, sign in signs.items() if sign == "▲"] == [
            "aten_hardswish_1@0",
            "aten_gelu_8@0",
        ]
        assert sum(sign == "↓" for sign in signs.values()) == 7

    drive(script, size=(100, 24))


def test_the_next_source_is_one_key_away(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("3", "right_square_bracket", "right_square_bracket", "enter")
        assert "aten.gelu.default" in ui.lines()[1]
        await ui.press("escape", "right_square_bracket", "enter")  # round to the first
        assert "aten.hardswish.default" in ui.lines()[1]

    drive(script)


def test_a_filter_leaves_what_it_says(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("3", "f", *["backspace"] * len("compared:yes "))
        await ui.type("op:gelu local>4lsb")
        assert column(ui.lines(), "aten_") == ["aten_gelu_8@0"]
        await ui.press("enter")
        assert "1 of 11 shown" in ui.line("shown")

    drive(script, size=(100, 24))


def test_a_filter_that_is_wrong_says_so_and_escape_undoes_it(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("3", "f")
        await ui.type(" local>many")
        assert "many is no number" in ui.text()
        await ui.press("escape")
        assert "10 of 11 shown" in ui.line("shown")

    drive(script, size=(100, 24))


def test_layers_sort_by_a_column(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("3")
        for _ in range(12):
            if "loc LSB↓" in ui.lines()[1]:
                break
            await ui.press("s")
        assert column(ui.lines(), "aten_")[:2] == ["aten_hardswish_1@0", "aten_gelu_8@0"]
        await ui.press("r")
        assert column(ui.lines(), "aten_")[-2:] == ["aten_gelu_8@0", "aten_hardswish_1@0"]

    drive(script, size=(120, 24))


def test_a_click_on_a_title_sorts_and_a_second_one_turns_round(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("3")
        x = ui.lines()[1].index("×floor") + 1
        await ui.pilot.click("#layers", offset=(x, 0))
        await ui.settle()
        assert column(ui.lines(), "aten_")[0] == "aten_hardswish_1@0"
        await ui.pilot.click("#layers", offset=(x, 0))
        await ui.settle()
        assert column(ui.lines(), "aten_")[-1] == "aten_hardswish_1@0"

    drive(script, size=(120, 24))


def test_layers_group_by_module(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("3", "m")
        groups = [line for line in ui.lines() if line.startswith("▾")]
        assert len(groups) == 10
        assert "▲ 1" in next(line for line in groups if "block0.hardswish" in line)
        assert "effect 86.0 %" in next(line for line in groups if "block0.hardswish" in line)
        await ui.press("home", "down", "down", "enter")  # the second group
        assert column(ui.lines(), "aten_") == ["aten_hardswish_1@0"]

    drive(script, size=(100, 40))


def test_search_finds_while_typing_and_n_goes_on(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("3", "slash")
        await ui.type("gelu")
        await ui.press("enter", "enter")
        assert "aten_gelu_3@0 · 5 of 11" in ui.text() or "aten_gelu_3@0 · 4 of 11" in ui.text()
        await ui.press("escape", "n", "enter")
        assert "aten_gelu_8@0" in ui.text()

    drive(script)


def test_saturated_values_are_counted(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("3")
        assert "sat%" in ui.lines()[1]
        assert ui.line("aten_relu_2@0").split()[-2:] in (["0.8", "net.py:5"], ["–", "0.8"])  # 1 of 128

    drive(script, size=(100, 24))

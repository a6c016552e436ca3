"""The filter language, on layers of known errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from qnndbg.model.result import LayerResult
from qnndbg.recording.store import open_recording
from qnndbg.tui.columns import columns, drawn
from qnndbg.tui.query import Known, QueryError, parse, without_unit
from qnndbg.tui.source import lines_around
from qnndbg.tui.state import Session
from tests.tui.recorded import tensor_name


@pytest.fixture
def layers(folder: Path) -> tuple[LayerResult, ...]:
    answer = open_recording(folder).comparison()
    assert answer is not None
    return answer.layers


def known(layers: tuple[LayerResult, ...]) -> Known:
    def made(layer: LayerResult) -> bool:
        return layer.tensor in {tensor_name(1), tensor_name(8)}

    return Known(
        made=made,
        inherited=lambda layer: not made(layer),
        saturation=lambda layer: 0.25 if layer.tensor == tensor_name(2) else None,
        given=frozenset({"graph input: both sides are given it"}),
    )


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("op:gelu", [3, 8]),
        ("op:GELU", [3, 8]),
        ("op:aten.gelu.default", [3, 8]),
        ("op:Gelu*", [3, 8]),  # QNN's name, as a whole
        ("op:aten.g*", [3, 8]),
        ("op:elu", [2, 3, 7, 8]),
        ("op:elu*", []),
        ("module:encoder.block1.*", [5, 6, 7, 8, 9]),
        ("block1 op:add", [9]),
        ("local>4lsb", [1, 8]),
        ("local>41lsb", [1]),
        ("local>=100.5", []),
        ("local<60db", [1]),
        ("local>20x", [1]),
        ("acc>4lsb !is:source", [2, 3, 4, 5, 6, 7, 9]),
        ("effect>50%", [1]),
        ("effect>10", [1, 8]),
        ("sat>20%", [2]),
        ("is:source", [1, 8]),
        ("source:net.py:4", [1, 6]),
        ("compared:yes op:relu", [2, 7]),
        ("compared:no", []),
        ("partition=1", []),
        ("elements=128 tensor:relu_2", [2]),
    ],
)
def test_a_filter_leaves(layers: tuple[LayerResult, ...], text: str, numbers: list[int]) -> None:
    test = parse(text, known(layers))
    assert [layer.tensor for layer in layers if test(layer)] == [tensor_name(i) for i in numbers]


def test_what_was_given_can_be_asked_for(layers: tuple[LayerResult, ...]) -> None:
    test = parse("compared:given", known(layers))
    assert [layer.tensor for layer in layers if test(layer)] == ["input_0_x@0"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("local>", "nothing is no number"),
        ("local>4volts", "4volts is no number"),
        ("size>3", "no number size"),
        ("colour:red", "no field colour"),
        ("is:nice", "no state nice"),
        ("compared:perhaps", "compared is yes, no, given"),
    ],
)
def test_a_filter_that_is_not_understood_says_why(
    layers: tuple[LayerResult, ...], text: str, problem: str
) -> None:
    with pytest.raises(QueryError, match=problem):
        parse(text, known(layers))


def test_source_lines_come_from_inside_the_folder_only(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/net.py").write_text("one\ntwo\nthree\nfour\n")
    (tmp_path / "secret.py").write_text("secret\n")
    assert lines_around(tmp_path / "src", "net.py:2") == [(1, "one"), (2, "two"), (3, "three"), (4, "four")]
    for source in (
        "../secret.py:1",
        str(tmp_path / "secret.py") + ":1",
        "none.py:1",
        "net.py",
        "net.py:x",
        "",
    ):
        assert lines_around(tmp_path / "src", source) == []


def test_layers_without_such_steps_are_counted_and_shown_in_decibels(
    layers: tuple[LayerResult, ...], folder: Path
) -> None:
    first, *rest = (layer for layer in layers if layer.local is not None)
    assert first.local is not None
    floating = replace(first, local=replace(first.local, max_lsb=None, sqnr_db=26.125, mismatched=3))
    assert without_unit("op:x local>4lsb", [floating, *rest]) == "1 have no LSB: try local<40db"
    assert without_unit("local>4lsb", rest) == without_unit("local<40db acc>3", [floating]) == ""
    column = next(c for c in columns(Session(open_recording(folder))) if c.name == "loc LSB")
    assert drawn(column, floating, frozenset({"loc LSB"})) == "26.1dB"
    assert drawn(column, floating, frozenset({"loc LSB", "loc dB"})) == "–"
    assert drawn(column, replace(first, local=None), frozenset()) == "–"

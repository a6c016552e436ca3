"""The way to the evidence: one element, what the quantiser put in, and where a culprit of it is seen."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from qnndbg.model.graph import Graph, Node, Output, Ref
from qnndbg.model.recording import PassEvent
from qnndbg.model.result import Source
from qnndbg.recording.store import open_recording
from qnndbg.recording.writer import Writer
from qnndbg.tui.places import GraphAt, LayerAt
from qnndbg.tui.sheet import Sheet
from qnndbg.tui.state import Keeping, Session
from qnndbg.tui.tensor import CELL, LABEL
from qnndbg.tui.twins import descendant
from tests.tui.conftest import Drive, Driver
from tests.tui.recorded import FAULTS
from tests.unit.recordings import F32, manifest, node


def test_raw_differences_are_of_codes_on_both_sides(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("enter", "t", "w", "r")
        index, steps = FAULTS[1]
        assert "raw codes, cpu in the same encoding" in ui.text()
        row = ui.lines()[2 + index[2]].split()
        assert row[1:] == [str(steps) if i == index[3] else "0" for i in range(4)]

    drive(script, size=(120, 30))


def test_enter_on_a_worst_element_goes_to_that_element(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("enter")
        line = next(i for i, text in enumerate(ui.lines()) if "[0,3,2,1]" in text)
        ui.app.screen.query_one("#layer", Sheet).cursor = line - 1
        await ui.press("enter")
        sheet = ui.app.screen.query_one("#tensor", Sheet)
        assert sheet.cursor == 2
        assert "slice [0, 3, :, :]" in ui.text()
        row = sheet.content.line(2).text
        (span,) = (span for span in row.spans if span.style == "found")
        assert span.start == LABEL + CELL  # of the column 1

    drive(script, size=(120, 50))


def graph(*nodes: Node) -> Graph:
    return Graph(nodes=nodes, outputs=(Output(value=Ref(nodes[-1].name)),))


X = Node(name="x", op="placeholder", target="x", outputs=(F32,), role="input")
FLOAT = graph(X, node("relu", args=(Ref("x"),)))
QUANTISED = graph(
    X,
    node("q", "quantized_decomposed.quantize_per_tensor.default", args=(Ref("x"), 0.5, 10, 0, 255)),
    node("relu", args=(Ref("q"),)),
)


def test_what_the_quantiser_put_in_is_a_change_to_stop_at(drive: Drive, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "net.qnndbg")
    writer.manifest(manifest("8a8w"))
    before, after = writer.graph(FLOAT), writer.graph(QUANTISED)
    writer.pass_event(PassEvent(index=0, stage="annotation", name="", after=before))
    writer.pass_event(PassEvent(index=1, stage="annotation", name="Quiet", before=before, after=before))
    writer.pass_event(PassEvent(index=2, stage="quantized", name="convert_pt2e", after=after))
    writer.pass_event(PassEvent(index=3, stage="export", name="", after=after))

    async def script(ui: Driver) -> None:
        await ui.press("2", "right_square_bracket")
        await ui.pilot.pause(0.3)
        await ui.settle()
        assert "3 (+1)" in ui.line("~    2 convert_pt2e")
        assert "convert_pt2e  1 made, 1 changed  of quantized" in ui.text()
        assert "+ q = quantize_per_tensor(x, 0.5, 10, 0, 255)" in ui.text()

    drive(script, size=(140, 30), recording=open_recording(tmp_path / "net.qnndbg"))


@pytest.fixture
def blamed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recording as if the quantiser were to blame for the first hardswish."""
    answer = open_recording(folder).comparison()
    assert answer is not None
    source = Source(
        step="quantisation", method="forward", sample=0, output=0, kind="op", name="hardswish_1",
        op="aten.hardswish.default", module="encoder.block0.hardswish", source="net.py:4", share=0.73,
        excess=None, cause="outlier channel", detail="a channel is 86 times the median one",
    )  # fmt: skip
    verdict = replace(answer.verdict, kind="quantisation", culprit="hardswish_1")
    monkeypatch.setattr(
        Keeping, "comparison", lambda _self: replace(answer, verdict=verdict, sources=(source,))
    )


@pytest.mark.usefixtures("blamed")
def test_a_culprit_of_the_quantiser_comes_with_its_evidence(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("enter")
        assert ui.lines()[0].startswith(" Overview › Node of annotation")
        assert "a channel is 86 times the median one" in ui.line("73.0 %")
        assert ui.line("▶").split("▶")[1].split() == ["4", "y", "=", "F.hardswish(y)"]
        await ui.press("l")
        assert "aten.hardswish.default → QNN HardSwish" in ui.lines()[1]

    drive(script, size=(120, 40))


@pytest.mark.usefixtures("blamed")
def test_what_is_lost_of_the_graphs_is_said(drive: Drive, folder: Path, tmp_path: Path) -> None:
    recording = open_recording(Path(shutil.copytree(folder, tmp_path / "copy.qnndbg")))
    (partition,) = (qnn.graph for qnn in recording.qnn)
    (recording.folder / "graphs" / f"{partition}.json.gz").unlink()

    async def script(ui: Driver) -> None:
        await ui.press("enter")
        assert "a channel is 86 times the median one" in ui.text()
        assert "✗" in ui.line(partition[:8])
        await ui.press("l", "less_than_sign")
        assert "Node of" in ui.lines()[0]

    drive(script, size=(140, 40), recording=recording)


def test_l_follows_a_value_of_any_stage_to_its_layer(folder: Path) -> None:
    session = Session(open_recording(folder))
    for stage, name in (("annotation", "gelu_8"), ("export", "gelu_8"), ("transform", "aten_gelu_8")):
        at = session.located(GraphAt(stage))
        found = descendant(session, at, session.walk(at).stops[name])
        assert found == LayerAt("forward", 0, "aten_gelu_8@0")

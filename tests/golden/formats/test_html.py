"""The HTML report: complete, safe, the same each time; how it looks is for the eye."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import html
from msgspec.structs import replace

from qnndbg.analyze.compare import compare
from qnndbg.model.graph import Origin, Ref
from qnndbg.model.recording import Run
from qnndbg.recording.store import Recording, open_recording
from qnndbg.report.html import html_report
from qnndbg.report.html.markup import Markup, el
from qnndbg.report.html.page import Page, page_from_recording
from tests.golden.formats import made
from tests.unit.recordings import Maker, Tensor, node, raw, real

PAGE = Page(manifest=made.MANIFEST, comparison=made.COMPARISON, has_comparison=True, passes=made.PASSES)
HOSTILE = "</script><img src=x onerror=alert(1)>"


def parsed(page: Page) -> html.HtmlElement:
    return html.document_fromstring(html_report(page))


def data(tree: html.HtmlElement, name: str) -> Any:
    return json.loads(tree.get_element_by_id(name).text)


def record(folder: Path, count: int = 3) -> Recording:
    """A chain of ops in modules, of which every tenth errs."""
    maker = Maker(folder)
    tensors = []
    for i in range(count):
        args = (Ref(f"relu_{i - 1}"),) if i else ()
        made_by = node(
            f"relu_{i}", args=args, tensors=(f"relu_{i}@0",), origin=Origin(module_path=f"blocks.{i // 10}")
        )
        wrong = 40 if i % 10 == 1 else 0
        tensors.append(
            Tensor(
                name=f"relu_{i}@0",
                made_by=made_by,
                htp=raw(10, 20 + wrong, 30),
                reference=real(0, 5, 10),
                local=real(0, 5, 10),
            )
        )
    maker.partition(0, tensors)
    maker.compared()
    recording = open_recording(folder)
    run = recording.run("local")
    assert run is not None
    maker.writer.run(replace(run, values=tuple(replace(value, floor=0.2) for value in run.values)))
    maker.writer.comparison(compare(open_recording(folder)))
    return open_recording(folder)


def test_every_section_that_has_content_is_there_and_linked() -> None:
    tree = parsed(PAGE)
    sections = [part.get("id") for part in tree.iter("section")]
    assert sections == [
        "verdict",
        "ladder",
        "sources",
        "layers",
        "findings",
        "coverage",
        "passes",
        "environment",
    ]
    assert [link.get("href") for link in tree.xpath("//nav/a")] == [f"#{name}" for name in sections]
    assert made.VERDICT.text.partition(": ")[2] in tree.get_element_by_id("verdict").text_content()


def test_a_lowering_that_failed_says_so_first() -> None:
    page = Page(manifest=made.FAILED, comparison=made.COMPARISON, has_comparison=False)
    text = parsed(page).get_element_by_id("verdict").text_content()
    assert "lower failed the HTP refuses aten.grid_sampler_2d.default" in text
    assert "net.py:7" in text


def test_it_is_the_same_each_time(tmp_path: Path) -> None:
    record(tmp_path / "a.qnndbg")
    first, second = (
        html_report(page_from_recording(open_recording(tmp_path / "a.qnndbg"))) for _ in range(2)
    )
    assert first == second
    assert str(tmp_path) not in first


def test_it_loads_nothing_and_runs_its_own_script_only(tmp_path: Path) -> None:
    text = html_report(page_from_recording(record(tmp_path / "a.qnndbg")))
    tree = html.document_fromstring(text)
    links = tree.xpath("//@src | //@href | //@*[local-name()='href']")
    assert [link for link in links if not link.startswith("#")] == []
    assert re.findall(r"url\(|@import|fetch\(|XMLHttpRequest", text) == []
    script = tree.xpath("//script[not(@type)]")
    digest = b64encode(hashlib.sha256(script[0].text.encode()).digest()).decode()
    policy = tree.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")[0]
    assert len(script) == 1
    assert "default-src 'none'" in policy
    assert f"'sha256-{digest}'" in policy


def test_a_strangers_names_are_text(tmp_path: Path) -> None:
    layer = replace(made.LAYERS[1], tensor=HOSTILE, module=HOSTILE, source=HOSTILE)
    comparison = replace(
        made.COMPARISON,
        layers=(layer,),
        verdict=replace(made.VERDICT, text=HOSTILE),
        findings=(replace(made.FINDINGS[0], message=HOSTILE, where=HOSTILE),),
    )
    tree = parsed(replace_page(comparison=comparison))
    assert tree.xpath("//img") == []
    assert len(tree.xpath("//script")) == 2
    assert data(tree, "layer-data")["rows"][0][1] == HOSTILE


def replace_page(**fields: Any) -> Page:
    parts = {"manifest": PAGE.manifest, "comparison": PAGE.comparison, "has_comparison": True, **fields}
    return Page(**parts)


def test_the_table_has_every_layer_and_the_page_only_the_first() -> None:
    layers = tuple(replace(made.LAYERS[0], tensor=f"t{i}") for i in range(1000))
    tree = parsed(replace_page(comparison=replace(made.COMPARISON, layers=layers)))
    table = data(tree, "layer-data")
    assert len(table["rows"]) == 1000
    assert all(len(row) == len(table["fields"]) for row in table["rows"])
    assert 0 < len(tree.xpath("//table[@id='layer-table']/tbody/tr")) < 100


def test_the_first_rows_are_the_worst() -> None:
    rows = parsed(PAGE).xpath("//table[@id='layer-table']/tbody/tr")
    assert "aten_hardswish_default@0" in rows[0].text_content()
    assert rows[0].get("class") == "made"


def test_a_small_graph_is_drawn_whole_and_its_boxes_lead_to_layers(tmp_path: Path) -> None:
    tree = parsed(page_from_recording(record(tmp_path / "a.qnndbg")))
    boxes = tree.xpath("//*[local-name()='g' and contains(concat(' ', @class, ' '), ' node ')]")
    assert [box.get("id") for box in boxes] == ["v0-0", "v0-1", "v0-2"]
    assert data(tree, "graph-data") == [[[0], [1], [2]]]
    assert "heat3" in boxes[1].get("class")
    assert "heat0" in boxes[2].get("class")


def test_a_large_graph_is_a_map_and_the_neighbourhoods_of_the_worst(tmp_path: Path) -> None:
    page = page_from_recording(record(tmp_path / "a.qnndbg", count=300))
    titles = [drawing.view.title for drawing in page.drawings]
    assert titles[0] == "Graph: modules"
    assert len(titles) == 5
    assert all(len(drawing.view.boxes) < 60 for drawing in page.drawings)
    assert len(page.drawings[0].view.boxes) == 30


def test_close_ups_show_the_worst_with_their_errors(tmp_path: Path) -> None:
    page = page_from_recording(record(tmp_path / "a.qnndbg"))
    worst = page.closeups[0]
    assert worst.layer.tensor == "relu_1@0"
    assert worst.errors is not None
    assert worst.errors.unit == "LSB"
    counts = worst.errors.counts["local"]
    assert sum(counts) == 3
    assert [step.stage for step in worst.steps] == ["preprocess", "qnn"]


def test_what_is_missing_of_a_recording_is_said(tmp_path: Path) -> None:
    recording = record(tmp_path / "a.qnndbg")
    for file in (tmp_path / "a.qnndbg/tensors").iterdir():
        file.unlink()
    for file in (tmp_path / "a.qnndbg/graphs").iterdir():
        file.unlink()
    page = page_from_recording(recording)
    assert all(closeup.problem for closeup in page.closeups)
    assert len(page.problems) == 1
    assert page.problems[0] in parsed(page).get_element_by_id("verdict").text_content()


def test_a_damaged_ladder_takes_no_histogram_with_it(tmp_path: Path) -> None:
    record(tmp_path / "a.qnndbg")
    (tmp_path / "a.qnndbg/layer-ladders").mkdir(exist_ok=True)
    (tmp_path / "a.qnndbg/layer-ladders/forward.0.json").write_text("{")
    closeup = page_from_recording(open_recording(tmp_path / "a.qnndbg")).closeups[0]
    assert closeup.errors is not None
    assert closeup.steps == ()
    assert "layer-ladders/forward.0.json does not hold" in closeup.problem


def test_a_damaged_qnn_graph_is_said(tmp_path: Path) -> None:
    record(tmp_path / "a.qnndbg")
    (file,) = (tmp_path / "a.qnndbg/qnn").iterdir()
    file.write_text("{")
    page = page_from_recording(open_recording(tmp_path / "a.qnndbg"))
    (problem,) = page.problems
    assert f"qnn/{file.name} does not hold" in problem
    assert page.drawings == ()


def test_a_recording_without_values_has_no_histograms(tmp_path: Path) -> None:
    recording = record(tmp_path / "a.qnndbg")
    recording.runs["htp-tapped"] = Run(runner="htp-tapped")
    assert {closeup.problem for closeup in page_from_recording(recording).closeups} == {
        "the recording has none of the HTP's"
    }


@pytest.mark.parametrize("extreme", [np.inf, np.nan])
def test_values_that_are_not_finite_are_no_obstacle(tmp_path: Path, extreme: float) -> None:
    maker = Maker(tmp_path / "a.qnndbg", "fp16")
    value = Tensor(
        name="relu@0",
        made_by=node("relu", tensors=("relu@0",)),
        dtype="FLOAT_16",
        encoding=None,
        htp=np.array([1, 2, extreme], np.float16),
        reference=real(1, 2.5, 3),
        local=real(1, 2, 3),
    )
    maker.partition(0, [value])
    maker.writer.comparison(maker.compared())
    text = html_report(page_from_recording(open_recording(tmp_path / "a.qnndbg")))
    assert "NaN/∞" in text


def test_markup_escapes_text_and_attributes() -> None:
    assert el("p", "<&>", class_='"x"', hidden=True) == '<p class="&quot;x&quot;" hidden>&lt;&amp;&gt;</p>'
    assert el("p", Markup("<b>x</b>"), [None, "y"], hidden=False) == "<p><b>x</b>y</p>"

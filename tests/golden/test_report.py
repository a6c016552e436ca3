"""Whole reports, byte for byte but for trailing spaces."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from qnndbg.model.recording import Fallback, Method
from qnndbg.model.result import Finding
from qnndbg.report.as_json import json_report
from qnndbg.report.markdown import markdown_report
from qnndbg.report.text import print_report

WIDTHS = [80, 120]


def printed(recorded: Any, width: int, **options: Any) -> str:
    """The report as plain text of a width."""
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    print_report(console, *recorded, **options)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["mixed", "overflow", "failed"])
def test_text(
    name: str, width: int, golden: Callable[[str, str], None], request: pytest.FixtureRequest
) -> None:
    golden(f"{name}-{width}.txt", printed(request.getfixturevalue(name), width))


def test_everything(mixed: Any, golden: Callable[[str, str], None]) -> None:
    golden("mixed-all-80.txt", printed(mixed, 80, layers=None, sort="order"))


@pytest.mark.parametrize("name", ["mixed", "failed"])
def test_json(name: str, golden: Callable[[str, str], None], request: pytest.FixtureRequest) -> None:
    golden(f"{name}.json", json_report(*request.getfixturevalue(name)))


@pytest.mark.parametrize("width", [40, 60, *WIDTHS, 200])
def test_no_line_is_wider_than_the_terminal(mixed: Any, width: int) -> None:
    assert all(len(line) <= width for line in printed(mixed, width).splitlines())


def test_partitions_are_told_apart_where_there_are_several(mixed: Any) -> None:
    first, *others = mixed.comparison.layers
    comparison = replace(mixed.comparison, layers=(replace(first, partition=1), *others))
    lines = printed((mixed.manifest, comparison, ()), 120).splitlines()
    header = next(line for line in lines if line.startswith("  tensor"))
    row = next(line for line in lines if first.tensor in line)
    assert row[header.index("part") :].startswith("1 ")


def test_ops_on_the_cpu_are_listed_with_their_reasons_equal_ones_together(mixed: Any) -> None:
    kept = [
        Fallback(node="relu", op="aten.relu.default", reason="on the caller's skip list"),
        Fallback(node="topk", op="aten.topk.default", reason="the backend has no builder for it"),
        Fallback(node="relu_1", op="aten.relu.default", reason="on the caller's skip list"),
    ]
    methods = (Method(name="small", fallbacks=tuple(kept[:2])), Method(name="large", fallbacks=(kept[2],)))
    lines = printed((replace(mixed.manifest, methods=methods), mixed.comparison, ()), 80).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("On the CPU"))
    assert [line[13:].rstrip() for line in lines[start : start + 2]] == [
        "2 aten.relu.default  on the caller's skip list",
        "1 aten.topk.default  the backend has no builder for it",
    ]


def test_outputs_are_told_apart_by_their_methods(mixed: Any) -> None:
    both = [replace(rung, method=name) for name in ("small", "large") for rung in mixed.comparison.ladder]
    comparison = replace(mixed.comparison, ladder=tuple(both))
    lines = [line.strip() for line in printed((mixed.manifest, comparison, ()), 80).splitlines()]
    assert lines.index("small 0") < lines.index("large 0")


def test_colour_adds_nothing_but_colour(mixed: Any) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard", record=True)
    print_report(console, *mixed)
    assert console.export_text().split() == printed(mixed, 80).split()


def test_json_has_the_promised_keys_for_every_layer(mixed: Any) -> None:
    report = json.loads(json_report(*mixed))
    assert {"verdict", "ladder", "layers", "coverage", "environment"} <= report.keys()
    assert {"compared", "total", "share", "reasons"} <= report["coverage"].keys()
    for layer in report["layers"]:
        assert {"tensor", "op", "module", "dtype", "accumulated", "local"} <= layer.keys()
        for error in (layer["accumulated"], layer["local"]):
            assert {"sqnr_db", "max_lsb", "max_abs"} <= error.keys()


def test_one_note_is_one_note(mixed: Any) -> None:
    note = Finding(rule="QD403", severity="note", where="passes", message="it is so")
    for count, said in ((1, "1 note (QD403): --all"), (2, "2 notes (QD403 ×2): --all")):
        comparison = replace(mixed.comparison, findings=(note,) * count)
        assert said in printed((mixed.manifest, comparison, ()), 80)


def test_a_share_beyond_all_measure_is_short(mixed: Any) -> None:
    first, *_ = mixed.comparison.sources
    for share, said in ((2e5, "2.0e7 %"), (-math.inf, "−∞ %")):
        comparison = replace(mixed.comparison, sources=(replace(first, share=share),))
        assert f"  {said}  gelu" in printed((mixed.manifest, comparison, ()), 80)


def test_shares_that_were_estimated_say_what_they_add_up_to(mixed: Any) -> None:
    first, *_ = mixed.comparison.sources
    found = replace(first, explained=1.42)
    for measured in (True, False):
        comparison = replace(mixed.comparison, sources=(replace(found, measured=measured),))
        said = "share of the error, estimated; all of them add up to 142%"
        assert (said in printed((mixed.manifest, comparison, ()), 80)) == (not measured)


def test_sources_of_one_name_go_by_what_tells_them_apart(mixed: Any) -> None:
    first, *_ = mixed.comparison.sources
    both = tuple(replace(first, called=f"mean [{name}]") for name in ("mean", "mean_1"))
    text = printed((mixed.manifest, replace(mixed.comparison, sources=both), ()), 80)
    assert "mean [mean] " in text
    assert "mean [mean_1]" in text


def test_a_note_of_several_lines_stays_in_its_row(mixed: Any) -> None:
    *rungs, last = mixed.comparison.ladder
    comparison = replace(mixed.comparison, ladder=(*rungs, replace(last, note="not\nthis")))
    assert "= bit-equal  not this" in printed((mixed.manifest, comparison, ()), 120)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("lower", "annotation → export ✗; not reached: edge, transform,"),
        ("htp", "annotation → export → htp ✗"),
    ],
)
def test_how_far_a_failed_lowering_came(step: str, said: str, failed: Any) -> None:
    manifest = replace(failed.manifest, failure=replace(failed.manifest.failure, step=step))
    assert said in printed((manifest, None, failed.passes), 80)
    assert said.partition(";")[0] in markdown_report(manifest, None, failed.passes)
    assert "Reached" not in printed((manifest, None, ()), 80)


def test_what_the_htp_has_alone_is_told_where_the_quantiser_errs_too(mixed: Any, overflow: Any) -> None:
    text = printed(mixed, 80)
    assert "▼ −39.2 dB, 25.0 dB alone" in text
    assert "alone: against the rung before" in text
    assert "alone" not in printed(overflow, 80)
    assert "25.0 dB alone" in markdown_report(*mixed)
    assert "alone" not in markdown_report(*overflow)

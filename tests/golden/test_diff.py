"""Whole reports of differences, byte for byte but for trailing spaces."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from qnndbg.analyze.diff.recordings import diff_recordings
from qnndbg.model.diff import Diff
from qnndbg.model.graph import Origin
from qnndbg.model.recording import Fallback, Method
from qnndbg.model.result import Comparison, Coverage, Verdict
from qnndbg.recording.store import Recording
from qnndbg.report.diff_json import diff_json
from qnndbg.report.diff_text import print_diff
from tests.golden.conftest import ENVIRONMENT, Golden, layers, rungs
from tests.unit.lowerings import Step, call, edited, encoding, held, lowering, net, renamed

MODEL = net(
    held("w", 1),
    call("linear", "linear", "x", "w", module="head", encoding=encoding(0.05)),
    call("act", "hardswish", "linear", module="act", encoding=encoding(0.02)),
    call("sum", "add", "act", "x", encoding=encoding(0.04)),
    call("last", "relu", "sum", encoding=encoding(0.04)),
)
FUSED = net(
    held("w", 1),
    call("linear", "linear", "x", "w", module="head", encoding=encoding(0.05)),
    call("act", "hardswish", "linear", module="act", encoding=encoding(0.16)),
    call("cast", "_to_copy", "act", encoding=encoding(0.16), origin=Origin(created_by="WidenHardswish")),
    call("sum", "add", "cast", "x", encoding=encoding(0.04)),
    call("last", "relu", "sum", encoding=encoding(0.04)),
)
GOOD = """\
linear@0 | aten.linear.default | head | net.py:1 | 48.1 | 1 | 48.1 | 1
act@0 | aten.hardswish.default | act | net.py:2 | 47.2 | 2 | 47.2 | 2
sum@0 | aten.add.Tensor | | net.py:3 | 46.5 | 2 | 200 | 0
last@0 | aten.relu.default | | net.py:4 | 46.5 | 2 | 200 | 0"""
BAD = """\
linear_0@0 | aten.linear.default | head | net.py:1 | 48.1 | 1 | 48.1 | 1
act_0@0 | aten.hardswish.default | act | net.py:2 | 21.3 | 31 | 21.3 | 31
cast_0@0 | aten._to_copy.default | | net.py:2 | 21.3 | 31 | 200 | 0
sum_0@0 | aten.add.Tensor | | net.py:3 | 23.9 | 30 | 200 | 0
last_0@0 | aten.relu.default | | net.py:4 | 23.9 | 30 | 200 | 0"""


def comparison(table: str, htp: float) -> Comparison:
    steps = (("quantized", 40.2, 40.2, ""), ("edge", 40.2, 200.0, ""), ("htp", htp, htp, ""))
    return Comparison(
        verdict=Verdict(kind="clean", text="", culprit="", next_step=""),
        ladder=rungs(0, *steps),
        layers=layers(table, "UFIXED_POINT_8", "lsb"),
        coverage=Coverage(compared=4, total=4, reasons={}),
    )


def steps(*passes: Step, last: Any) -> list[Step]:
    return [
        *([("export", "", MODEL), ("export", "I64toI32", None), ("transform", "", None)]),
        *passes,
        ("transform", "TagQuantIO", None),
        ("preprocess", "", last),
        ("preprocess", "FoldQDQ", None),
    ]


def sides(folder: Path) -> tuple[Recording, Recording]:
    """A pass that came with an update coarsens an encoding, and an op is kept on the CPU."""
    other = {node.name: f"{node.name}_0" for node in FUSED.nodes}
    fallback = Fallback(node="aten_topk_default", op="aten.topk.default", reason="no builder")
    a = lowering(
        folder / "a",
        steps(last=MODEL),
        results={"eager": [1.0, 2.0], "htp": [1.0, 2.25]},
        comparison=comparison(GOOD, 39.8),
        qnn=True,
        precision="8a8w",
        environment=ENVIRONMENT,
        methods=(Method(name="forward", partitions=1),),
    )
    newer = replace(ENVIRONMENT, packages={**ENVIRONMENT.packages, "executorch": "1.6.0"})
    b = lowering(
        folder / "b",
        steps(("transform", "WidenHardswish", renamed(FUSED, other)), last=renamed(FUSED, other)),
        results={"eager": [1.0, 2.0], "htp": [1.5, 2.0]},
        comparison=comparison(BAD, 20.4),
        qnn=True,
        precision="8a8w",
        environment=newer,
        methods=(Method(name="forward", partitions=1, fallbacks=(fallback,)),),
    )
    return a, b


@pytest.fixture
def regressed(tmp_path: Path) -> Diff:
    return diff_recordings(*sides(tmp_path))


def printed(diff: Diff, width: int, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    print_diff(console, diff, **options)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_text(regressed: Diff, width: int, golden: Golden) -> None:
    golden(f"diff-{width}.txt", printed(regressed, width))


def test_everything(regressed: Diff, golden: Golden) -> None:
    golden("diff-all-80.txt", printed(regressed, 80, everything=True))


def test_json(regressed: Diff, golden: Golden) -> None:
    golden("diff.json", diff_json(regressed))


def test_same(tmp_path: Path, golden: Golden) -> None:
    a = lowering(tmp_path / "a", steps(last=MODEL))
    b = lowering(tmp_path / "b", steps(last=edited(MODEL, "last", handle=(9,))))
    golden("diff-same.txt", printed(diff_recordings(a, b), 80))


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(regressed: Diff, width: int) -> None:
    for everything in (False, True):
        lines = printed(regressed, width, everything=everything).splitlines()
        assert [line for line in lines if len(line.rstrip()) > width] == []


def test_report_says_nothing_of_where_the_recordings_are(regressed: Diff, tmp_path: Path) -> None:
    for text in (printed(regressed, 200, everything=True), diff_json(regressed)):
        assert str(tmp_path) not in text

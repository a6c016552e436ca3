"""Whole reports of a check, byte for byte but for trailing spaces."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from qnndbg.analyze.baseline.reduce import baseline_of
from qnndbg.gate.policy import parse_policy
from qnndbg.gate.triage import triage
from qnndbg.model.recording import Fallback, Method
from qnndbg.model.triage import Triage
from qnndbg.recording.store import Recording
from qnndbg.report.triage_json import triage_json
from qnndbg.report.triage_text import print_triage
from tests.golden.conftest import Golden
from tests.unit.lowerings import encoding
from tests.unit.test_triage import of, recorded

POLICY = """
[[waiver]]
match = "linear@0"
reason = "the kernel of QNN 2.49 rounds down"
expires = 2030-01-31

[[waiver]]
match = "gelu*"
reason = "gone since"
expires = 2030-01-31
"""


def judged(folder: Path) -> tuple[Triage, Recording]:
    """An encoding coarser, a dtype wider, an op on the CPU, and something of each other status."""
    fallback = Fallback(node="aten_topk_default", op="aten.topk.default", reason="no builder")
    a = recorded(
        folder / "a",
        of(1.0, encoding=encoding(0.1), module="act", source="net.py:7"),
        of(1.5, "linear", module="head"),
        of(4.0, "add"),
        of(1.0, "gone"),
        methods=(Method(name="forward", partitions=1),),
    )
    b = recorded(
        folder / "b",
        of(12.0, encoding=encoding(0.9), module="act", source="net.py:8"),
        of(6.0, "linear", module="head", dtype="UFIXED_POINT_16"),
        of(2.0, "add", dtype="UFIXED_POINT_16"),
        of(1.0, "sum", module="extra"),
        htp=20.4,
        scale=0.9,
        methods=(Method(name="forward", partitions=1, fallbacks=(fallback,)),),
        environment=replace(a.manifest.environment, packages={"executorch": "1.6.0"}),
    )
    return triage(b, baseline_of(a), parse_policy(POLICY, "qnndbg.toml")), b


@pytest.fixture
def found(tmp_path: Path) -> Triage:
    return judged(tmp_path)[0]


def printed(found: Triage, width: int, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    print_triage(console, found, **options)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_text(found: Triage, width: int, golden: Golden) -> None:
    golden(f"triage-{width}.txt", printed(found, width))


def test_everything(found: Triage, golden: Golden) -> None:
    golden("triage-all-80.txt", printed(found, 80, everything=True))


def test_json(found: Triage, golden: Golden) -> None:
    golden("triage.json", triage_json(found))


def test_passed(tmp_path: Path, golden: Golden) -> None:
    a = recorded(tmp_path / "a")
    golden("triage-passed.txt", printed(triage(a, a, parse_policy("", "p")), 80))


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(found: Triage, width: int, tmp_path: Path) -> None:
    text = printed(found, width, everything=True)
    assert [line for line in text.splitlines() if len(line.rstrip()) > width] == []
    assert str(tmp_path) not in text + triage_json(found)

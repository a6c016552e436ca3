"""``qnndbg tui`` itself: what it refuses, and that its how-to names the keys that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.binding import Binding

from qnndbg.cli.main import main
from qnndbg.tui.app import QnndbgApp
from qnndbg.tui.diff import DiffPage
from qnndbg.tui.findings import Findings
from qnndbg.tui.graph import GraphPage, NodePage
from qnndbg.tui.job_page import JobPage
from qnndbg.tui.keys import key_name
from qnndbg.tui.layer import Layer
from qnndbg.tui.layers import Layers
from qnndbg.tui.overview import Overview
from qnndbg.tui.page import Page
from qnndbg.tui.passes import Passes
from qnndbg.tui.sheet import Sheet
from qnndbg.tui.tensor import TensorPage

HOWTO = (Path(__file__).parents[2] / "docs/howto/use-the-tui.md").read_text(encoding="utf-8")
PAGES = (JobPage, DiffPage, Findings, GraphPage, Layer, Layers, NodePage, Overview, Page, Passes, TensorPage)


def test_without_a_terminal_it_says_what_to_do(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tui", str(folder)]) == 2
    assert f"hint: print the report instead: qnndbg show {folder}" in capsys.readouterr().err


def test_a_missing_recording_is_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tui", str(tmp_path / "none")]) == 3
    assert "there is no recording" in capsys.readouterr().err


def test_the_keys_in_the_howto_are_bound() -> None:
    bound = {
        key_name(key)
        for owner in (*PAGES, QnndbgApp, Sheet)
        for kind in owner.__mro__
        for binding in vars(kind).get("BINDINGS", ())
        if isinstance(binding, Binding)
        for key in binding.key.split(",")
    }
    bound |= {"Ctrl-P", ":"} if "^p" in bound and "colon" in bound else set()
    named = set(re.findall(r"`([^`*▲↓~✗\s]|Esc|Enter|Tab|Ctrl-P)`", HOWTO))
    assert len(named) > 25
    assert named - bound == set()


def test_a_baseline_alone_has_nothing_to_walk_through(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline = tmp_path / "net.baseline"
    assert main(["check", str(folder), "--baseline", str(baseline), "--update"]) == 0
    assert main(["tui", str(baseline)]) == 2
    assert f"hint: look at what differs from it: qnndbg tui {baseline} RECORDING" in capsys.readouterr().err

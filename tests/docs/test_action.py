"""The steps of the GitHub action, run in a shell on recordings that are there already."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qnndbg.cli.main import main
from tests.unit.test_triage import of, recorded

ROOT = Path(__file__).parents[2]
STEPS = ROOT / ".github/actions/check/check.sh"


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a good recording, its baseline and a bad recording; qnndbg is on the path."""
    monkeypatch.chdir(tmp_path)
    recorded(tmp_path / "net.qnndbg", of(1.0))
    recorded(tmp_path / "bad.qnndbg", of(9.0), scale=0.9, htp=20.0)
    assert main(["check", "net.qnndbg", "--update"]) == 0
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/qnndbg").write_text(f'#!/bin/sh\nexec {sys.executable} -m qnndbg "$@"\n')
    (tmp_path / "bin/qnndbg").chmod(0o755)
    return tmp_path


def call(folder: Path, what: str, **env: str) -> subprocess.CompletedProcess[str]:
    paths = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    outputs = {"OUT": str(folder / "out"), "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    command = ["bash", str(STEPS)]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **paths, **outputs, "WHAT": what, "BASELINE": "snapshots/net.baseline", **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_unchanged_lowering(steps: Path) -> None:
    done = call(steps, "net.qnndbg")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (steps / "out").iterdir()} == {
        *("triage.txt", "triage.json", "triage.md", "triage.html", "triage.xml", "errors.txt"),
        *("report.html", "report.md", "report.sarif"),
    }
    summary = (steps / "summary.md").read_text()
    assert summary.startswith("## qnndbg: net.qnndbg\n### ✓ qnndbg check: net.py:make · fp16 · SM8650\n")
    assert "> **passed**: 2 unchanged\n" in summary


def test_regressed_lowering(steps: Path) -> None:
    done = call(steps, "bad.qnndbg")
    assert done.returncode == 1
    summary = (steps / "summary.md").read_text()
    assert "blamed on Fold (transform)" in summary
    assert "| regressed | output | `output 0` |" in summary
    assert summary.endswith("</details>\n")
    assert '"passed": false' in (steps / "out/triage.json").read_text()


def test_policy_and_what_cannot_be_judged(steps: Path) -> None:
    (steps / "lax.toml").write_text("[limits]\nexcess = 10\ndrop_db = 30")
    assert call(steps, "bad.qnndbg", POLICY="lax.toml").returncode == 0
    done = call(steps, "bad.qnndbg", POLICY="none.toml")
    assert done.returncode == 2
    assert "none.toml cannot be read" in (steps / "summary.md").read_text()

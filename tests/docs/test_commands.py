"""The commands of the README, run in its order and in one folder, as a reader would."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    """The arguments of every line of the README that calls qnndbg."""
    lines = re.findall(r"^\$ qnndbg (.*)$", README, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.emulator
def test_the_commands_of_the_readme_work(tmp_path: Path) -> None:
    verbs = []
    for arguments in commands():
        command = [sys.executable, "-m", "qnndbg", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"qnndbg {shlex.join(arguments)}\n{done.stderr}"
        verbs.append(arguments[0])
    assert verbs == ["doctor", "record", "show", "show"]

"""The commands of the README, run in its order and in one folder, as a reader would."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

LOWER = """
import sys
import torch
from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
from executorch.backends.qualcomm.utils import utils

specs = utils.generate_qnn_executorch_compiler_spec(
    soc_model=QcomChipset.SM8650, backend_options=utils.generate_htp_compiler_spec(use_fp16=True)
)
utils.to_edge_transform_and_lower_to_qnn(torch.nn.ReLU(), (torch.ones(1, 4),), specs)
sys.exit(sys.argv[1:] != ["--its", "arguments"])
"""
"""A script of the reader's."""
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    """The arguments of every line of the README that calls qnndbg."""
    lines = re.findall(r"^\$ qnndbg (.*)$", README, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


def exit_code_in_a_terminal(command: list[str], folder: Path) -> int:
    """Run what needs a terminal, and leave it with q once it has drawn its keys."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = os.environ | {"TERM": "xterm-256color"}
    with subprocess.Popen(
        command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        drawn = b""
        while b"Help" not in drawn:
            drawn += os.read(ours, 1 << 16)
        os.write(ours, b"q")
        with contextlib.suppress(OSError):  # a terminal whose other end is closed
            while os.read(ours, 1 << 16):
                pass
        code = process.wait()
    os.close(ours)
    return code


@pytest.mark.emulator
def test_the_commands_of_the_readme_work(tmp_path: Path) -> None:
    (tmp_path / "lower.py").write_text(LOWER)
    verbs = []
    for arguments in commands():
        command = [sys.executable, "-m", "qnndbg", *arguments]
        verbs.append(arguments[0])
        if arguments[0] == "tui":
            assert exit_code_in_a_terminal(command, tmp_path) == 0
            continue
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"qnndbg {shlex.join(arguments)}\n{done.stderr}"
    assert verbs == ["doctor", "record", "show", "tui", "show", "show", "record", "check", "check"]
    assert {path.name for path in tmp_path.glob("*.qnndbg")} == {"digits.qnndbg", "lower.qnndbg"}

"""What goes wrong ends in an exit code, a fact and a hint, and what was captured until then is kept."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from qnndbg.execute.sdk import HOST, LIBRARIES
from qnndbg.recording.store import open_recording
from tests.emulator.conftest import NETS, Command, Recorded


def said(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """The fact and the hint, which are the last that is written."""
    found = re.search(r"qnndbg: error: (.*)\nhint: (.*)\n\Z", done.stderr)
    assert found is not None, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return found[1], found[2]


def net(name: str) -> str:
    return f"{NETS}:{name}"


@pytest.mark.parametrize(
    ("target", "fact", "hint"),
    [
        ("none.py:net", "there is no file none.py", "give its path from the current folder"),
        ("mixed", "'mixed' is not a target", "file.py:factory, package.module:factory or example:NAME"),
        ("nets.py:none", "nets.py has no function 'none'", "bool_output, branches, channels_last"),
        (
            "no.such:net",
            "there is no module 'no.such'",
            "file.py:factory, package.module:factory or example:NAME",
        ),
        ("example:none", "there is no example 'none'", "digits, rnet, silero"),
        ("nets.py:nonsense", "nonsense() returned int", "(module, inputs)"),
        ("nets.py:leaves", "the code under test ended its process: sys.exit(3)", "take that call out"),
    ],
)
def test_a_target_that_is_none(target: str, fact: str, hint: str, command: Command, tmp_path: Path) -> None:
    done = command("record", target.replace("nets.py", str(NETS)), "-o", "a")
    assert done.returncode == 2
    assert fact in said(done)[0]
    assert hint in said(done)[1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "fact", "hint"),
    [
        (("--precision", "7a7w"), "there is no precision '7a7w'", ("fp16", "8a8w", "16a8w", "16a4w")),
        (("--soc", "SM1"), "there is no SoC 'SM1'", ("SM8650", "SM8750", "QCM6490")),
    ],
)
def test_a_name_that_executorch_does_not_have(
    option: tuple[str, str], fact: str, hint: tuple[str, ...], command: Command, tmp_path: Path
) -> None:
    done = command("record", net("layer_norm"), "-o", "a", *option)
    assert done.returncode == 2
    assert said(done)[0] == fact
    assert set(hint) <= set(re.split(r"[ ,]+", said(done)[1]))
    assert list(tmp_path.iterdir()) == []


def test_no_sdk(command: Command, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    done = command("record", net("layer_norm"), "-o", "a", QNN_SDK_ROOT=str(empty))
    assert done.returncode == 4
    assert said(done)[0].startswith(f"QNN_SDK_ROOT is {empty}, which is no QNN SDK: there is no ")
    assert 'pip install "qnndbg[qnn]"' in said(done)[1]
    assert list(tmp_path.iterdir()) == [empty]


def test_an_sdk_whose_libraries_do_not_load(command: Command, tmp_path: Path) -> None:
    (tmp_path / "sdk" / HOST).mkdir(parents=True)
    for name in LIBRARIES:
        (tmp_path / "sdk" / HOST / name).write_text("an unfinished download")
    done = command("record", net("layer_norm"), "-o", "a", "--sdk", str(tmp_path / "sdk"))
    assert done.returncode == 4
    assert said(done)[0].startswith("libQnnSystem.so cannot be loaded: ")
    assert f"reinstall the SDK in {tmp_path / 'sdk'}" in said(done)[1]


def test_a_factory_that_raises(command: Command, tmp_path: Path) -> None:
    done = command("record", net("raises"), "-o", "a")
    assert done.returncode == 4
    assert said(done)[0] == "raises() raised ZeroDivisionError: the weights are gone"
    assert said(done)[1].startswith("mend the factory; the traceback is in ")
    assert said(done)[1].endswith("; what was captured: qnndbg show a.qnndbg")
    (log,) = (tmp_path / "a.qnndbg" / "logs").iterdir()
    assert "in raises\n" in log.read_text(encoding="utf-8", errors="replace")


def test_a_recording_that_is_there_outlives_one_that_fails(
    recorded: Recorded, command: Command, tmp_path: Path
) -> None:
    shutil.copytree(recorded("layer_norm", "8a8w").folder, tmp_path / "a.qnndbg")
    before = command("show", "a.qnndbg").stdout
    done = command("record", net("raises"), "-o", "a")
    assert (done.returncode, said(done)[0]) == (2, "a.qnndbg exists")
    assert "--force" in said(done)[1]
    done = command("record", net("raises"), "-o", "a", "--force")
    assert done.returncode == 4
    assert said(done)[1].endswith("; what was captured: qnndbg show a-failed.qnndbg")
    assert command("show", "a.qnndbg").stdout == before
    assert command("show", "a-failed.qnndbg").returncode == 0


def test_a_model_that_does_not_export(command: Command, tmp_path: Path) -> None:
    done = command("record", net("branches"), "-o", "a", "--precision", "8a8w")
    assert done.returncode == 4
    fact, hint = said(done)
    assert fact.startswith("the model does not export: ")
    assert hint.startswith("make torch.export.export(module, inputs, strict=True) work first")
    report = command("show", "a.qnndbg")
    assert (report.returncode, report.stderr) == (0, "")
    assert fact in " ".join(report.stdout.split())
    recording = open_recording(tmp_path / "a.qnndbg")
    assert not recording.manifest.complete
    assert set(recording.runs) == {"eager"}
    assert recording.manifest.failure is not None
    assert (recording.manifest.failure.step, recording.manifest.failure.exit_code) == ("export", 4)


def test_an_op_that_the_htp_refuses(command: Command, tmp_path: Path) -> None:
    done = command("record", net("refused"), "-o", "a", "--precision", "8a8w")
    assert done.returncode == 4
    assert "Failed to generate Qnn context binary" in said(done)[0]
    assert "qnndbg show a.qnndbg" in said(done)[1]
    assert command("show", "a.qnndbg").returncode == 0
    recording = open_recording(tmp_path / "a.qnndbg")
    assert recording.manifest.failure is not None
    assert recording.manifest.failure.step == "lower"
    stages = {event.stage for event in recording.passes}
    assert stages >= {"annotation", "quantized", "export", "edge", "transform", "preprocess"}
    (graph,) = recording.qnn
    assert "Conv2d" in {op.type for op in graph.ops}
    for path in tmp_path.rglob("*.json*"):
        assert str(tmp_path).encode() not in path.read_bytes(), path.name


def test_an_output_that_is_no_recording(command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.qnndbg").mkdir()
    (tmp_path / "mine.qnndbg" / "letter").touch()
    done = command("record", net("layer_norm"), "-o", "mine", "--force")
    assert (done.returncode, said(done)[0]) == (2, "mine.qnndbg exists and is no recording")
    assert [path.name for path in (tmp_path / "mine.qnndbg").iterdir()] == ["letter"]

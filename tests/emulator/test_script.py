"""A script is recorded as it is: it writes, says and exits with what it does without qnndbg."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
import pytest

from qnndbg.execute.sdk import HOST, find_sdk
from qnndbg.model.recording import Stage
from qnndbg.recording.store import Recording, open_recording
from tests.emulator.conftest import ROOT, SCRIPTS, Command

LOWER, IDLE, FAULTY, RUDE = (SCRIPTS / f"{name}.py" for name in ("lower", "idle", "faulty", "rude"))
PROGRAM = "net.pte"
CODE = 7


class Ran(NamedTuple):
    """What a run left."""

    done: subprocess.CompletedProcess[str]
    folder: Path

    @property
    def program(self) -> np.ndarray:
        return np.fromfile(self.folder / PROGRAM, np.uint8)

    def said(self, stream: str) -> list[str]:
        """The script's own lines; native code adds its own to the same descriptors."""
        return re.findall("script: .*", getattr(self.done, stream))


def run(folder: Path, *command: str, stdin: str = "", **env: str) -> Ran:
    folder.mkdir()
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environ,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    return Ran(done, folder)


def plain(folder: Path, script: Path, *args: str) -> Ran:
    """Without qnndbg, and with what ExecuTorch itself asks for."""
    sdk = find_sdk()
    return run(folder, str(script), *args, QNN_SDK_ROOT=str(sdk.root), LD_LIBRARY_PATH=str(sdk.root / HOST))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Ran]:
    """The same script plainly, plainly again, and recorded."""
    folder = tmp_path_factory.mktemp("runs")
    args = (PROGRAM, str(CODE))
    return (
        plain(folder / "one", LOWER, *args),
        plain(folder / "two", LOWER, *args),
        run(folder / "recorded", "-m", "qnndbg", "record", str(LOWER), *args),
    )


@pytest.fixture(scope="module")
def recording(runs: Sequence[Ran]) -> Recording:
    return open_recording(runs[2].folder / "lower.qnndbg")


def test_program_is_that_of_a_plain_run(runs: Sequence[Ran]) -> None:
    one, two, recorded = (ran.program for ran in runs)
    assert one.shape == two.shape == recorded.shape
    # Two plain runs differ in one number of at most 8 bytes, a time; any bytes of it may be equal by chance.
    (differing,) = np.nonzero((one != two) | (one != recorded))
    assert np.ptp(differing) < 8
    assert np.array_equal(np.fromfile(runs[2].folder / "lower.qnndbg/programs/htp.pte", np.uint8), recorded)


def test_arguments_words_and_exit_code_are_those_of_a_plain_run(runs: Sequence[Ran]) -> None:
    one, _, recorded = runs
    assert recorded.done.returncode == one.done.returncode == CODE
    for stream, count in (("stdout", 2), ("stderr", 1)):
        assert recorded.said(stream) == one.said(stream)
        assert len(one.said(stream)) == count
    assert str([str(LOWER), PROGRAM, str(CODE)]) in recorded.said("stdout")[0]


def test_stdout_is_the_scripts_alone(runs: Sequence[Ran]) -> None:
    def kinds(ran: Ran) -> list[str]:
        """Lines without numbers, progress bars and the script's own."""
        lines = re.sub(r"\d+", "0", ran.done.stdout).splitlines()
        return sorted(line for line in lines if "%" not in line and "script: " not in line)

    assert kinds(runs[2]) == kinds(runs[0])
    assert "qnndbg" not in runs[2].done.stdout
    assert runs[2].done.stderr.endswith("wrote lower.qnndbg; see it: qnndbg show lower.qnndbg\n")


def test_nothing_is_left_but_what_the_script_wrote_and_the_recording(runs: Sequence[Ran]) -> None:
    assert [sorted(path.name for path in ran.folder.iterdir()) for ran in runs] == [
        [PROGRAM],
        [PROGRAM],
        ["lower.qnndbg", PROGRAM],
    ]


def test_recording_of_a_script_is_a_whole_one(recording: Recording) -> None:
    manifest, comparison = recording.manifest, recording.comparison()
    assert (manifest.target, manifest.precision, manifest.soc) == ("lower.py", "8a8w", "SM8550")
    assert manifest.arguments == (PROGRAM, str(CODE))
    assert (manifest.complete, manifest.failure, manifest.notes) == (True, None, ())
    assert comparison is not None
    assert comparison.coverage.share == 1.0
    assert [rung.name for rung in comparison.ladder] == [
        *("eager", "annotation", "quantized", "export", "edge", "transform", "reference"),
        *("htp-tapped", "htp"),
    ]
    assert tuple(dict.fromkeys(event.stage for event in recording.passes)) == get_args(Stage)


def test_eager_and_quantised_models_are_found_in_what_the_script_lowered(recording: Recording) -> None:
    results = {name: run.results for name, run in recording.runs.items()}
    cpu = ("quantized", "export", "edge", "transform", "reference")
    assert len({results[runner] for runner in cpu}) == 1  # by digest
    assert results["eager"] == results["annotation"] != results["quantized"]
    assert len(results) == 11


def test_script_that_lowers_nothing_leaves_no_recording(tmp_path: Path) -> None:
    by_itself = run(tmp_path / "here", str(IDLE))
    recorded = run(tmp_path / "there", "-m", "qnndbg", "record", str(IDLE))
    assert recorded.done.returncode == by_itself.done.returncode == 1
    assert by_itself.said("stdout") == ["script: neighbour in here from scripts"]
    assert recorded.said("stdout") == ["script: neighbour in there from scripts"]
    assert recorded.said("stderr") == by_itself.said("stderr") == ["script: refused"]
    assert recorded.done.stderr.endswith(" lowered nothing to QNN in its own process; nothing is recorded\n")
    assert "build again" not in recorded.done.stderr
    assert list(recorded.folder.iterdir()) == []


def test_lowering_that_fails_is_recorded_beside_the_one_that_did_not(
    command: Command, tmp_path: Path
) -> None:
    done = command("record", "-q", "-o", "out", str(FAULTY), "raise")
    assert done.returncode == 1
    assert "Exception: An error occurred when running the 'FixedLinearKeepDim' pass" in done.stderr
    sound, failed = (open_recording(tmp_path / name) for name in ("out.qnndbg", "out-2.qnndbg"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out-2.qnndbg", "out.qnndbg"]
    comparison = sound.comparison()
    assert (sound.manifest.complete, failed.manifest.complete) == (True, False)
    assert comparison is not None
    assert comparison.coverage.share == 1.0
    *_, before, event = failed.passes
    assert (event.name, event.error) == ("FixedLinearKeepDim", "RuntimeError: seeded fault")
    assert event.before == before.after
    assert failed.manifest.failure is not None
    assert failed.manifest.failure.error == (
        "the pass FixedLinearKeepDim of the stage transform failed: RuntimeError: seeded fault"
    )


def test_script_that_is_killed_leaves_every_lowering_that_it_began(command: Command, tmp_path: Path) -> None:
    done = command("record", "-q", "-o", "out", str(FAULTY), "kill")
    assert done.returncode == 4
    assert "qnndbg: error: the worker process was killed by SIGKILL in step 'script'" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out-2.qnndbg", "out.qnndbg"]
    assert "hint: its output is in out.qnndbg/logs/worker.log; memory may have run out" in done.stderr
    assert "partial" not in done.stderr
    assert (tmp_path / "out.qnndbg/logs/worker.log").is_file()
    lasts = []
    for name in ("out.qnndbg", "out-2.qnndbg"):
        recording = open_recording(tmp_path / name)
        assert recording.manifest.failure is not None
        assert "killed by SIGKILL" in recording.manifest.failure.error
        assert "partial" not in recording.manifest.failure.hint
        assert (recording.manifest.precision, recording.manifest.soc) == ("fp16", "SM8650")
        assert [given.tensor.shape for given in recording.manifest.inputs] == [(1, 4)]
        assert command("show", name).returncode == 0
        lasts.append(recording.passes[-1])
        assert recording.graph(lasts[-1].after).nodes
    assert (lasts[0].stage, lasts[1].stage) == ("executorch", "transform")
    assert lasts[1].name == "ExpandBroadcastTensorShape"  # the one before the one that killed


def test_script_that_leaves_its_process_in_disorder_is_recorded_all_the_same(tmp_path: Path) -> None:
    """What it left behind itself is told in the script."""
    ran = run(tmp_path / "rude", "-m", "qnndbg", "record", str(RUDE), stdin="one\ntwo\n")
    assert ran.done.returncode == 130, ran.done.stderr[-2000:]
    assert ran.said("stdout") == ["script: got 'one\\ntwo\\n'", "script: child gave 0", "script: at exit"]
    assert [path.name for path in ran.folder.iterdir()] == ["rude.qnndbg"]
    recording = open_recording(ran.folder / "rude.qnndbg")
    (graph,) = recording.qnn
    assert (recording.manifest.complete, recording.manifest.failure) == (True, None)
    assert {op.type for op in graph.ops} == {"Reshape", "ElementWiseMultiply"}  # and nothing of the child's
    snapshots = [recording.graph(event.after) for event in recording.passes if event.after]
    assert not any("relu" in node.target for graph in snapshots for node in graph.nodes)

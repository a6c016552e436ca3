"""``with qnndbg.record(...)`` around code of one's own, and lowerings in which a pass fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qnndbg.cli.main import main
from qnndbg.recording.store import Recording, open_recording
from tests.emulator.conftest import ROOT, SCRIPTS

STAGES = ("annotation", "export", "edge", "transform", "preprocess", "executorch")


def seen(script: str, folder: Path) -> Any:
    """What a script wrote of what it did in a folder."""
    out = folder / "seen.json"
    with (folder / "log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, SCRIPTS / script, str(out)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
            check=False,
        )
    assert done.returncode == 0, (folder / "log").read_text(errors="replace")[-3000:]
    return json.loads(out.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blocks")


@pytest.fixture(scope="module")
def blocks(folder: Path) -> Any:
    return seen("blocks.py", folder)


@pytest.fixture
def recordings(blocks: Any) -> list[Recording]:
    return [open_recording(path) for path in blocks["samples"]["recordings"]]


def test_each_lowering_is_a_recording_once_the_block_has_ended(
    blocks: Any, recordings: list[Recording], folder: Path
) -> None:
    assert blocks["samples"]["recordings within"] == 0
    assert [recording.folder.name for recording in recordings] == ["samples.qnndbg", "samples-2.qnndbg"]
    assert [recording.manifest.soc for recording in recordings] == ["SM8650"] * 2
    # The third sample of the first one is channels_last, which the program misreads as it is.
    for recording, kind in zip(recordings, ("input", "clean"), strict=True):
        comparison = recording.comparison()
        assert recording.manifest.complete
        assert comparison is not None
        assert (comparison.coverage.share, comparison.verdict.kind) == (1.0, kind)
    assert len((recordings[0].folder / "programs/htp.pte").read_bytes()) == blocks["samples"]["program"]


def test_nothing_hidden_is_left(blocks: Any, folder: Path) -> None:
    assert blocks
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_further_samples_are_run_by_all(recordings: list[Recording]) -> None:
    first, second = recordings
    assert first.samples == (("forward", 0), ("forward", 1), ("forward", 2))
    assert second.samples == (("forward", 0), ("forward", 1))
    assert [run.sample for run in first.runs.values() if run.runner == "htp-given"] == [2]
    for recording in recordings:
        counts = Counter(run.runner for run in recording.runs.values() if run.runner != "htp-given")
        assert set(counts.values()) == {len(recording.samples)}
        cpu = {"eager", "export", "edge", "transform", "reference", "local"}
        assert counts.keys() == cpu | {"htp-tapped", "htp", "held"}


def test_samples_are_what_they_were_and_give_what_they_give(recordings: list[Recording]) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU()).eval()
    for sample in range(3):
        torch.manual_seed(sample + 1)
        image = torch.randn(1, 3, 6, 5)
        (given,) = recordings[0].inputs(sample=sample)
        assert np.array_equal(recordings[0].tensor(given.tensor), image.numpy())
        assert ("channels_last" in given.note) == (sample == 2)
        expected = module(image).detach().numpy()
        for runner, limit in (("eager", 1e-6), ("htp", 3e-3)):
            run = recordings[0].run(runner, sample=sample)  # type: ignore[arg-type]
            assert run is not None
            (ref,) = run.results
            assert ref is not None
            assert np.abs(recordings[0].tensor(ref) - expected).max() < limit


def test_edge_program_is_a_copy_of_what_was_delegated(blocks: Any, recordings: list[Recording]) -> None:
    assert blocks["samples"]["edge ops"] == ["aten.convolution.default", "aten.relu.default"]
    graph = recordings[0].last_graph("transform")
    assert graph is not None
    assert [n.target for n in graph.nodes if n.op == "call_function"] == blocks["samples"]["edge ops"]
    assert blocks["samples"]["unknown"] == ["no method 'decode' was lowered yet", "lowered: forward"]


def test_lowering_that_is_never_emitted_is_emitted_for_the_recording(recordings: list[Recording]) -> None:
    stages = [{event.stage for event in recording.passes} for recording in recordings]
    assert stages[0] - stages[1] == {"executorch"}
    assert [method.partitions for method in recordings[1].manifest.methods] == [1]


def test_exception_of_the_callers_goes_through_and_what_was_captured_is_kept(
    blocks: Any, folder: Path
) -> None:
    assert blocks["interrupted"] == {"error": "of the caller's own"}
    recording = open_recording(folder / "interrupted.qnndbg")
    assert recording.manifest.failure is not None
    assert recording.manifest.failure.error == "LookupError: of the caller's own"
    assert not recording.manifest.complete
    assert {event.stage for event in recording.passes} >= {"export", "transform", "preprocess"}
    assert recording.last_graph("partition") is not None


def test_block_that_lowers_nothing_leaves_nothing(blocks: Any, folder: Path) -> None:
    assert blocks["nothing"]["refused"] == ["no method 'forward' was lowered yet", "lowered: nothing"]
    assert blocks["nothing"]["recordings"] == 0
    assert not (folder / "nothing.qnndbg").exists()


def test_place_of_a_complete_recording_is_refused(blocks: Any) -> None:
    fact, hint = blocks["taken"]["refused"]
    assert fact.endswith("samples.qnndbg exists")
    assert hint == "replace it with force=True, or choose another place with path"


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The whole lowering, then those in which a pass was made to raise."""
    return seen("failing.py", tmp_path_factory.mktemp("faults"))


def test_passes_were_made_to_fail_all_over_the_lowering(faults: Any) -> None:
    whole = open_recording(faults[0]["place"])
    assert [event for event in whole.passes if event.error] == []
    assert Counter(fault["stage"] for fault in faults[1:]) == dict.fromkeys(STAGES, 3)
    assert [fault["index"] for fault in faults] == sorted({fault["index"] for fault in faults})
    assert faults[0]["said"] == "EnoughError: all went well"
    assert all("seeded fault" in fault["said"] or fault["name"] in fault["said"] for fault in faults[1:])


def test_failed_pass_is_named_with_its_exception_and_the_graph_that_it_got(faults: Any) -> None:
    whole = open_recording(faults[0]["place"])
    for fault in faults[1:]:
        recording = open_recording(fault["place"])
        *good, failed = recording.passes
        assert (failed.stage, failed.name, failed.index) == (fault["stage"], fault["name"], fault["index"])
        assert (failed.error, failed.after) == ("RuntimeError: seeded fault", "")
        assert [(e.stage, e.name, e.changed) for e in good] == [
            (e.stage, e.name, e.changed) for e in whole.passes[: len(good)]
        ]
        assert failed.before == good[-1].after
        assert recording.graph(failed.before).nodes
        assert recording.manifest.failure is not None
        assert recording.manifest.failure.error == (
            f"the pass {fault['name']} of the stage {fault['stage']} failed: RuntimeError: seeded fault"
        )
        assert recording.manifest.failure.exit_code == 4
        if fault["stage"] != "annotation":  # before that, nobody knows what it is lowered to
            assert (recording.manifest.precision, recording.manifest.soc) == ("8a8w", "SM8650")
            assert [given.tensor.shape for given in recording.manifest.inputs] == [(1, 4)]
        assert not recording.manifest.complete


def test_failed_recordings_can_be_shown(faults: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for fault in faults[1:]:
        assert main(["show", fault["place"]]) == 0
        printed, err = capsys.readouterr()
        assert err == ""
        words = " ".join(printed.split())
        assert "the recording ends early" in words
        assert re.search(rf"{fault['name']}(\(.*?\))? failed: RuntimeError: seeded fault", words)


def test_inputs_and_outputs_that_are_no_tensors(blocks: Any, folder: Path) -> None:
    recording = open_recording(folder / "literals.qnndbg")
    (method,) = recording.manifest.methods
    assert method.fixed == (3, None, True, 0.5)
    for sample, outcome in ((0, [[-7.0, -14.0, -28.0]]), (1, [[-10.0, -20.0, -40.0]])):
        for runner in ("eager", "edge", "reference", "htp-tapped", "htp"):
            run = recording.run(runner, sample=sample)
            assert run is not None
            tensor, literal = run.results
            assert tensor is not None
            value = recording.tensor(tensor).astype(np.float64)
            assert value == pytest.approx(np.array(outcome), rel=1e-6), runner
            assert literal is None
    comparison = recording.comparison()
    assert comparison is not None
    assert (comparison.verdict.kind, comparison.coverage.share) == ("clean", 1.0)
    wanted = "float32 (1, 3), 3, None, float32 (1, 3), True, 0.5"
    given = (wanted.replace("3, N", "4, N"), wanted.replace("(1, 3), 3", "(1, 2), 3"), "float32 (1, 3)")
    assert blocks["literals"]["refused"] == [
        [f"the further inputs of forward are {one}", f"make them what the example inputs are: {wanted}"]
        for one in given
    ]


def test_one_thread_at_a_time_records(blocks: Any) -> None:
    assert blocks["threads"] == {
        "refused": [
            "another thread of this process is recording",
            "let one block end before the next begins",
        ],
        "later": [],
    }

"""One net through the deprecated way into the lowering and through the current one: where do they part."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qnndbg.analyze.diff.recordings import diff_recordings
from qnndbg.model.diff import Diff
from qnndbg.model.recording import RunnerName
from qnndbg.recording.store import Recording, open_recording
from tests.emulator.conftest import ROOT, SCRIPTS

RUNNERS: tuple[RunnerName, ...] = ("eager", "edge", "reference", "htp")


def way(folder: Path, name: str) -> Recording:
    place = folder / f"{name}.qnndbg"
    done = subprocess.run(
        [sys.executable, "-m", "qnndbg", "record", "-o", str(place), str(SCRIPTS / "two_ways.py"), name],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return open_recording(place)


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recording, Recording]:
    folder = tmp_path_factory.mktemp("ways")
    return way(folder, "deprecated"), way(folder, "current")


@pytest.fixture(scope="module")
def diff(ways: tuple[Recording, Recording]) -> Diff:
    return diff_recordings(*ways)


def test_they_part_at_a_pass_of_to_edge_that_the_deprecated_way_lacks(diff: Diff) -> None:
    parting = diff.first_parting
    assert parting is not None
    assert parting.b is not None
    assert (parting.kind, parting.stage, parting.a) == ("only-in-one", "edge", None)
    assert parting.b.name == "ReplaceViewOpsWithViewCopyOpsPass"
    assert parting.graph is not None
    assert (parting.graph.only_a, parting.graph.only_b) == ((), ())


def test_nothing_that_computes_differs(diff: Diff) -> None:
    for graph in diff.graphs:
        assert (graph.only_a, graph.only_b) == ((), ())
        assert {node.b.op for node in graph.changed} <= {"output"}
    assert (diff.qnn, diff.layers, diff.fallbacks) == ((), (), ())


def test_the_outputs_agree_bit_for_bit_at_every_rung(diff: Diff, ways: tuple[Recording, Recording]) -> None:
    assert (diff.outputs, diff.rungs, diff.outputs_note) == ((), (), "")
    for runner in RUNNERS:
        runs = [recording.run(runner) for recording in ways]
        assert runs[0] is not None
        assert runs[1] is not None
        assert runs[0].results == runs[1].results

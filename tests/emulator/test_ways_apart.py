"""One net through the deprecated way into the lowering and through the current one: what is different."""

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


def test_the_ways_differ_in_passes_that_do_nothing_here(diff: Diff) -> None:
    assert not diff.same
    assert diff.first_parting is None
    alone = {run.name: "A" if one.a else "B" for one in diff.passes for run in (one.a or one.b,) if run}
    assert alone == {
        "MemoryPlanningPass": "A",
        "RemoveNonCoreAtenOpGraphAssertsPass": "B",
        "ReplaceViewOpsWithViewCopyOpsPass": "B",
    }


def test_no_graph_differs_and_no_pass_changed_one_in_one_way_only(diff: Diff) -> None:
    assert diff.graphs == ()
    assert [run.name for one in diff.passes for run in (one.a, one.b) if run and run.changed] == []
    assert (diff.qnn, diff.layers, diff.fallbacks) == ((), (), ())


def test_the_outputs_agree_bit_for_bit_at_every_rung(diff: Diff, ways: tuple[Recording, Recording]) -> None:
    assert (diff.outputs, diff.rungs, diff.outputs_note) == ((), (), "")
    for runner in RUNNERS:
        runs = [recording.run(runner) for recording in ways]
        assert runs[0] is not None
        assert runs[1] is not None
        assert runs[0].results == runs[1].results

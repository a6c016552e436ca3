"""Real lowerings of one net, each with one thing about it changed, against the plain one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from qnndbg.analyze.diff.recordings import diff_recordings
from qnndbg.cli.main import main
from qnndbg.model.diff import Diff, Parting
from qnndbg.recording.store import Recording, open_recording
from tests.emulator.conftest import ROOT, SCRIPTS

Variant = Callable[[str], Recording]


@pytest.fixture(scope="module")
def variant(tmp_path_factory: pytest.TempPathFactory) -> Variant:
    """Record a variant of variants.py; the second time, open it."""
    folder = tmp_path_factory.mktemp("variants")

    def make(name: str) -> Recording:
        place = folder / f"{name}.qnndbg"
        if not place.exists():
            command = [sys.executable, "-m", "qnndbg", "record", "-o", str(place)]
            done = subprocess.run(
                [*command, str(SCRIPTS / "variants.py"), name.partition("-")[0]],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr[-3000:]
        return open_recording(place)

    return make


def parted(diff: Diff) -> Parting:
    assert not diff.same
    assert diff.first_parting is not None
    return diff.first_parting


def test_second_recording_of_the_same_lowering_is_the_same(
    variant: Variant, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [str(variant(name).folder) for name in ("plain", "plain-again")]
    assert main(["diff", *places]) == 0
    assert capsys.readouterr().out.startswith("✓ same")


def test_pass_that_is_switched_off(variant: Variant) -> None:
    diff = diff_recordings(variant("plain"), variant("pass"))
    parting = parted(diff)
    assert (parting.kind, parting.stage, parting.b) == ("only-in-one", "transform", None)
    assert parting.a is not None
    assert parting.a.name == "ExpandBroadcastTensorShape"
    alone = [(d.stage, d.a and d.a.name) for d in diff.passes if d.b is None]
    assert alone == [("transform", "ExpandBroadcastTensorShape")]
    assert all(d.a and not d.moved for d in diff.passes)
    assert parting.graph is not None
    assert {place.created_by for place in parting.graph.only_a} == {"ExpandBroadcastTensorShape"}


def test_op_that_is_kept_off_the_htp(variant: Variant) -> None:
    diff = diff_recordings(variant("plain"), variant("skip"))
    parting = parted(diff)
    assert (parting.kind, parting.stage) == ("behaviour", "partition")
    assert parting.b is not None
    assert parting.b.name == "to_backend"
    assert [(d.a, d.b and d.b.op) for d in diff.fallbacks] == [(None, "aten.relu.default")]
    assert ("forward: partitions", 1, 2) in [(c.what, c.a, c.b) for c in diff.methods]
    assert [d.a and d.a.type for d in diff.qnn if d.b is None] == ["Relu"]
    assert [d.a and d.a.op for d in diff.layers if d.status == "gone"] == ["aten.relu.default"]


def test_encoding_that_other_calibration_data_made(variant: Variant) -> None:
    diff = diff_recordings(variant("plain"), variant("calibration"))
    parting = parted(diff)
    assert (parting.kind, parting.stage) == ("behaviour", "quantized")
    assert parting.a is not None
    assert parting.a.name == "convert_pt2e"
    assert parting.graph is not None
    assert (parting.graph.only_a, parting.graph.only_b) == ((), ())
    whats = {change.what for node in parting.graph.changed for change in node.changes}
    assert "scale" in whats
    assert whats <= {"scale", "zero point"}
    moved = [rung.name for rung in diff.rungs if rung.a != rung.b]
    assert moved[0] == "quantized"
    assert diff.passes == ()


def test_weight_that_was_changed(variant: Variant) -> None:
    diff = diff_recordings(variant("plain"), variant("weight"))
    parting = parted(diff)
    assert (parting.kind, parting.stage) == ("start", "annotation")
    assert parting.graph is not None
    (node,) = parting.graph.changed
    assert [change.what for change in node.changes] == ["constant"]


def test_reports_of_real_recordings_are_the_same_each_time(
    variant: Variant, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [str(variant(name).folder) for name in ("plain", "skip")]
    for options in ([], ["--all"], ["--format", "json"]):
        printed = []
        for _ in range(2):
            assert main(["diff", *places, *options]) == 1
            printed.append(capsys.readouterr().out)
        assert printed[0] == printed[1]
        assert str(Path(places[0]).parent) not in printed[0]

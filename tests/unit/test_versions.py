"""One net lowered with ExecuTorch 1.4.1 and with 1.5.1: which passes differ, and did the numbers move."""

from __future__ import annotations

from pathlib import Path

import pytest

from qnndbg.analyze.diff.recordings import diff_recordings
from qnndbg.cli.main import main
from qnndbg.model.diff import Diff
from qnndbg.recording.store import open_recording

FOLDER = Path(__file__).parents[1] / "versions"
OLD, NEW = (FOLDER / f"executorch-{version}.baseline" for version in ("1.4.1", "1.5.1"))


@pytest.fixture(scope="module")
def diff() -> Diff:
    return diff_recordings(open_recording(OLD), open_recording(NEW))


def test_nothing_else_of_the_environment_differs(diff: Diff) -> None:
    assert [(c.what, c.a, c.b) for c in diff.environment] == [("executorch", "1.4.1", "1.5.1")]


def test_passes_that_one_version_alone_has(diff: Diff) -> None:
    def alone(side: str) -> set[tuple[str, str]]:
        return {
            (d.stage, run.name)
            for d in diff.passes
            if not d.moved and (d.a is None or d.b is None) and (run := getattr(d, side)) is not None
        }

    assert alone("a") == {
        ("export", "CanonicalizeConv"),
        *(("transform", name) for name in ("DecomposeCDist", "DecomposeFill", "DecomposeVar")),
    }
    assert alone("b") == {
        *(("annotation", name) for name in ("RecomposeHadamard", "DecomposeAsStrided", "DecomposePDist")),
        *(("export", name) for name in ("DecomposeAsStrided", "DecomposePDist")),
        ("edge", "FoldRedundantDequantizeQuantizePass"),
        *(("transform", name) for name in ("DecomposePDist", "CanonicalizeConv", "AnnotateGetAttr")),
    }


def test_none_of_these_passes_changed_this_net(diff: Diff) -> None:
    assert not any(run.changed for d in diff.passes for run in (d.a, d.b) if run)
    assert {graph.stage for graph in diff.graphs} <= {"partition", "executorch"}
    assert diff.qnn == ()


def test_where_they_part_is_the_border_of_the_partition(diff: Diff) -> None:
    parting = diff.first_parting
    assert parting is not None
    assert parting.a is not None
    assert (parting.stage, parting.a.name) == ("partition", "to_backend")


def test_no_output_changed_on_the_cpu_or_on_the_htp(diff: Diff) -> None:
    assert diff.outputs == ()
    assert {rung.name for rung in diff.rungs if rung.a != rung.b} == {"htp-tapped"}  # 1.4.1 dumps nothing


def test_layers_are_said_to_be_unknown_not_the_same(diff: Diff) -> None:
    assert {(layer.local, layer.accumulated) for layer in diff.layers} == {("unknown", "unknown")}
    assert {layer.a and layer.a.local for layer in diff.layers} == {None}
    old = open_recording(OLD).comparison()
    assert old is not None
    assert (old.coverage.compared, old.verdict.kind) == (0, "incomplete")


def test_report_names_the_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(OLD), str(NEW), "--all"]) == 1
    out = capsys.readouterr().out
    assert "AnnotateGetAttr" in out
    assert "executorch 1.4.1 → 1.5.1" in out


def test_check_refuses_a_recording_without_a_compared_layer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(OLD), "--baseline", str(NEW)]) == 5
    assert "none of 11 QNN tensors could be compared" in capsys.readouterr().err

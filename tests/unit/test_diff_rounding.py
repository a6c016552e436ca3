"""The last bits of what the CPU computes, which differ between two processes and are no difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from qnndbg.analyze.baseline.reduce import baseline_of
from qnndbg.analyze.diff.layers import within_rounding
from qnndbg.analyze.diff.recordings import diff_recordings
from qnndbg.analyze.metrics import measure
from qnndbg.cli.main import main
from qnndbg.cli.report_file import FORMATS
from qnndbg.gate.policy import Policy
from qnndbg.gate.triage import triage
from qnndbg.model.recording import Run
from qnndbg.model.result import Rung
from qnndbg.recording.store import Recording, open_recording
from qnndbg.recording.writer import Writer
from qnndbg.report.diff_words import headline
from tests.unit.lowerings import lowering, plain
from tests.unit.test_diff_layers import compared_by, error, layer

ROUNDED = 4.0000005
"""The float32 beside 4."""
SAME = "same: passes, graphs, QNN graphs and numbers, but for the rounding of float32 on the CPU"


def side(
    folder: Path, eager: float = 4.0, htp: float = 3.9, *, rung: float = 40.0, own: float = 50.0, **page: Any
) -> Recording:
    """A recording of one output of two elements, and of one layer."""
    answer = compared_by(
        layer("relu", error(own, lsb=2.0), error(40.0, lsb=3.0)),
        ladder=(Rung(name="htp", output=0, against_eager=error(rung), against_previous=None),),
    )
    return lowering(
        folder,
        [("transform", "", plain()), ("preprocess", "", plain()), ("partition", "", plain())],
        results={"eager": [3.0, eager], "htp": [3.1, htp]},
        comparison=answer,
        qnn=True,
        **page,
    )


def test_errors_move_with_what_they_are_held_against_by_no_more_than_it_moved() -> None:
    random = np.random.default_rng(3)
    for size in (1e-1, 1e-3, 1e-5, 1e-7):
        eager = random.normal(size=1000)
        htp = eager + size * random.normal(size=1000)
        small, large = (eager + share * random.normal(size=1000) for share in (0.5e-5, 0.1))
        assert within_rounding(measure(eager, htp), measure(small, htp))
        assert not within_rounding(measure(eager, htp), measure(large, htp))


@pytest.mark.parametrize(
    "moved", [{}, {"rung": 40.0001}, {"own": 50.0001}, {"rung": 39.9999, "own": 49.9999}]
)
def test_rounding_and_what_follows_from_it_is_no_difference(tmp_path: Path, moved: dict[str, float]) -> None:
    diff = diff_recordings(side(tmp_path / "a"), side(tmp_path / "b", ROUNDED, **moved))
    assert (diff.same, diff.first_parting, headline(diff)) == (True, None, SAME)
    (output,) = diff.outputs
    assert (output.runner, output.rounding, output.mismatched) == ("eager", True, 1)


@pytest.mark.parametrize(
    ("other", "parted"),
    [
        ({"eager": 4.001}, ("reference", "eager")),
        ({"htp": 3.9000003}, ("htp", "htp")),
        ({"eager": ROUNDED, "htp": 3.9000003}, ("htp", "htp")),
        ({"eager": ROUNDED, "rung": 39.9}, ("htp", "htp")),
        ({"eager": ROUNDED, "own": 49.9}, ("htp", "relu@0")),
        ({"own": 50.0001}, ("htp", "relu@0")),
    ],
)
def test_what_rounding_does_not_explain_is_a_difference(
    tmp_path: Path, other: dict[str, float], parted: tuple[str, str]
) -> None:
    diff = diff_recordings(side(tmp_path / "a"), side(tmp_path / "b", **other))
    assert diff.first_parting is not None
    assert (diff.same, diff.first_parting.kind, diff.first_parting.what) == (False, *parted)


@pytest.mark.parametrize("runner", ["annotation", "export", "transform"])
def test_every_run_on_the_cpu_is_told_from_the_htp(tmp_path: Path, runner: str) -> None:
    steps = [("transform", "", plain())]
    sides = [lowering(tmp_path / str(last), steps, results={runner: [3.0, last]}) for last in (4.0, 5.0)]
    parting = diff_recordings(*sides).first_parting
    assert parting is not None
    assert (parting.kind, parting.what) == ("reference", runner)


@pytest.mark.parametrize("form", FORMATS)
def test_exit_code_is_0_in_every_format(
    tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, eager in (("a", 4.0), ("b", ROUNDED)):
        side(tmp_path / name, eager, rung=eager * 10)
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b"), "--format", form]) == 0
    out = capsys.readouterr().out
    if form in ("text", "md", "html", "junit", "sarif"):
        assert "but for the rounding of float32 on the CPU" in " ".join(out.split())


def test_baseline_has_the_errors_to_tell_by(tmp_path: Path) -> None:
    kept = baseline_of(side(tmp_path / "a"))
    near, far = side(tmp_path / "near", ROUNDED, rung=40.00001), side(tmp_path / "far", 4.1, rung=38.0)
    assert headline(diff_recordings(kept, near)) == SAME
    parting = diff_recordings(kept, far).first_parting
    assert parting is not None
    assert (parting.kind, parting.what) == ("reference", "eager")


def test_check_blames_no_rounding_and_says_so(tmp_path: Path) -> None:
    before = side(tmp_path / "a")
    found = triage(side(tmp_path / "b", ROUNDED), before, Policy())
    assert (found.passed, found.parting) == (True, None)
    assert found.notes == ("the CPU's answers are those of the baseline, but for the rounding of float32",)
    (worse,) = triage(side(tmp_path / "c", ROUNDED, rung=20.0), before, Policy()).judgements
    assert worse.blame is not None
    assert worse.blame.by == "htp"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.array([3, 4], np.float32), np.array([3, 4], np.float64)),
        (np.array([3, 4], np.float32), np.array([[3, 4]], np.float32)),
        (np.array([3, 10**6], np.int64), np.array([3, 10**6 + 1], np.int64)),
        (np.array([3, np.nan], np.float32), np.array([3, 4], np.float32)),
    ],
)
def test_another_dtype_or_shape_integers_and_nan_are_no_rounding(
    tmp_path: Path, a: NDArray[Any], b: NDArray[Any]
) -> None:
    sides = []
    for name, values in (("a", a), ("b", b)):
        side(tmp_path / name)
        writer = Writer(tmp_path / name)
        writer.run(Run(runner="eager", results=(writer.tensor(values),)))
        sides.append(open_recording(tmp_path / name))
    (output,) = diff_recordings(*sides).outputs
    assert not output.rounding

"""Parts of an output that are lost though the whole has a good SQNR."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qnndbg.analyze.lost import LostParts, lost_parts
from qnndbg.analyze.verdict import judge
from qnndbg.model.recording import Input, Run, RunnerName
from qnndbg.recording.store import open_recording
from qnndbg.recording.writer import Writer
from tests.unit.evidence import evidence, quantised
from tests.unit.recordings import manifest


def boxes_and_scores(elements: int = 64) -> np.ndarray:
    """Four channels of some hundred pixels and six of probabilities."""
    made = np.random.default_rng(0).random((1, 10, elements), np.float32)
    made[:, :4] *= 640.0
    return made


def found(folder: Path, eager: np.ndarray, htp: np.ndarray) -> tuple[LostParts, ...]:
    writer = Writer(folder)
    writer.manifest(manifest(inputs=(Input(name="x", tensor=writer.tensor(eager)),)))
    runs: dict[RunnerName, np.ndarray] = {"eager": eager, "htp": htp}
    for runner, result in runs.items():
        writer.run(Run(runner=runner, results=(writer.tensor(result),)))
    return lost_parts(open_recording(folder))


def test_scores_that_a_scale_for_boxes_makes_zero(tmp_path: Path) -> None:
    exact = boxes_and_scores()
    step = 640.0 / 255
    (lost,) = found(tmp_path, exact, np.round(exact / step).astype(np.float32) * np.float32(step))
    assert lost == LostParts(method="forward", sample=0, output=0, axis=1, lost=6, parts=10)


def test_half_as_much_error_as_signal_is_the_limit(tmp_path: Path) -> None:
    exact = boxes_and_scores()
    for energy, lost in ((0.49, 0), (0.51, 1)):
        other = exact.copy()
        other[:, 7] *= 1 + energy**0.5
        assert sum(part.lost for part in found(tmp_path / str(energy), exact, other)) == lost


@pytest.mark.parametrize(
    ("eager", "htp"),
    [
        (np.zeros((1, 4, 16), np.float32), np.full((1, 4, 16), 0.1, np.float32)),
        (boxes_and_scores(7), boxes_and_scores(7) * (np.arange(10) < 4).astype(np.float32)[:, None]),
        (np.arange(64).reshape(2, 32), np.zeros((2, 32), np.int64)),
    ],
    ids=["silence", "too few elements to tell", "integers"],
)
def test_what_is_no_lost_part(eager: np.ndarray, htp: np.ndarray, tmp_path: Path) -> None:
    assert found(tmp_path, eager, htp) == ()


def test_a_clean_verdict_says_so() -> None:
    lost = LostParts(method="forward", sample=0, output=2, axis=1, lost=6, parts=10)
    verdict = judge(evidence(quantised(50.0, 200.0, 60.0, 50.0), lost=(lost,)))
    assert verdict.kind == "clean"
    assert "but 6 of 10 slices along axis 1 of output 2 are more error than signal" in verdict.text

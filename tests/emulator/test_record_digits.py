"""The bundled example: a real classifier on real images, as ``make demo`` records it."""

from __future__ import annotations

import numpy as np
import pytest

from qnndbg.model.recording import Accuracy
from qnndbg.recording.store import Recording
from tests.emulator.conftest import ROOT, Command, Recorded

IMAGES = ROOT / "qnndbg/examples/data/digits_images.npz"


@pytest.fixture
def recording(recorded: Recorded) -> Recording:
    return recorded("example:digits", "8a8w")


@pytest.fixture
def accuracy(recording: Recording) -> Accuracy:
    assert recording.manifest.accuracy is not None
    return recording.manifest.accuracy


def test_accuracy_of_every_runner_on_the_held_out_images(accuracy: Accuracy) -> None:
    with np.load(IMAGES, allow_pickle=False) as stored:
        assert accuracy.samples == len(stored["test_labels"]) == 360
    assert accuracy.correct.keys() == {"eager", "quantized", "htp"}
    assert accuracy.correct["eager"] == 356  # as the training script found
    assert min(accuracy.correct.values()) >= 0.95 * accuracy.samples


def test_every_tensor_is_compared_and_no_layer_is_off(recording: Recording) -> None:
    comparison = recording.comparison()
    assert comparison is not None
    assert comparison.coverage.share == 1.0
    local = [layer.local.max_lsb for layer in comparison.layers if layer.local]
    assert max(steps for steps in local if steps is not None) < 2.5


def test_accuracy_is_in_the_report(recording: Recording, accuracy: Accuracy, command: Command) -> None:
    report = command("show", str(recording.folder)).stdout
    for correct in accuracy.correct.values():
        assert f"{100 * correct / accuracy.samples:.1f}" in report

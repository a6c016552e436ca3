"""Handwritten digits: a small CNN (15 k parameters) on real 8x8 images, ready without any download.

The weights are this project's own, made by :mod:`qnndbg.examples.train_digits`. The images are
from the "Optical Recognition of Handwritten Digits" set of the UCI repository (E. Alpaydin and
C. Kaynak, CC BY 4.0) as scikit-learn distributes it: 64 of its training split for calibration and
all 360 of the held-out split for evaluation, of which the eager net gets 356 right (98.9 %).
Record it with::

    qnndbg record example:digits --precision 8a8w
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from qnndbg.model.target import Evaluation, Target

DATA = Path(__file__).parent / "data"
WEIGHTS = DATA / "digits_weights.npz"
IMAGES = DATA / "digits_images.npz"
FULL_SCALE = 16.0
"""The grey level of full ink in the data set."""


class DigitsNet(nn.Module):
    """Three convolutions and a linear layer: float32 images (n, 1, 8, 8) in 0..1 to logits (n, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Linear(32 * 2 * 2, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits of the ten digits."""
        logits: torch.Tensor = self.classifier(self.features(image).flatten(1))
        return logits


def images_from_grey(grey: NDArray[np.uint8]) -> torch.Tensor:
    """Model input, float32 (n, 1, 8, 8) in 0..1, from grey levels (n, 8, 8) in 0..16."""
    return torch.from_numpy(grey.astype(np.float32) / FULL_SCALE).unsqueeze(1)


def digits() -> Target:
    """The trained net, one held-out image as input, and real calibration and evaluation images."""
    net = DigitsNet()
    with np.load(WEIGHTS, allow_pickle=False) as weights:
        net.load_state_dict({name: torch.from_numpy(weights[name]) for name in weights.files})
    with np.load(IMAGES, allow_pickle=False) as stored:
        calibration = images_from_grey(stored["calibration"])
        test = images_from_grey(stored["test"])
        labels = tuple(int(label) for label in stored["test_labels"])
    samples = tuple((image,) for image in test.split(1))
    return Target(
        module=net.eval(),
        inputs=samples[0],
        calibration=tuple((image,) for image in calibration.split(1)),
        evaluation=Evaluation(inputs=samples, labels=labels),
    )

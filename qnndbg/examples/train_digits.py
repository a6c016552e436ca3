"""Trains the net of ``example:digits`` and writes its weights and images; needs scikit-learn.

Deterministic for given versions: fixed seeds and one thread. The files are committed, so that only
a change of the net calls for::

    python -m qnndbg.examples.train_digits
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from qnndbg.errors import UsageError
from qnndbg.examples.digits import DATA, IMAGES, WEIGHTS, DigitsNet, images_from_grey

SEED = 0
TEST_IMAGES = 360
CALIBRATION_IMAGES = 64
EPOCHS = 40
BATCH = 64


Grey = NDArray[np.uint8]


def load_split() -> tuple[Grey, Grey, Grey, Grey]:
    """Grey images (n, 8, 8) uint8 and labels of the training split, then of the held-out one.

    Raises:
        UsageError: scikit-learn is missing.
    """
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError as error:
        raise UsageError("scikit-learn is not installed", "pip install scikit-learn") from error
    bunch = load_digits()
    order = np.random.default_rng(SEED).permutation(len(bunch.target))
    grey, labels = bunch.images[order].astype(np.uint8), bunch.target[order].astype(np.uint8)
    return grey[TEST_IMAGES:], labels[TEST_IMAGES:], grey[:TEST_IMAGES], labels[:TEST_IMAGES]


def train(images: torch.Tensor, labels: torch.Tensor) -> DigitsNet:
    """A net trained with Adam and a one-cycle learning rate, in eval mode."""
    torch.manual_seed(SEED)
    net = DigitsNet()
    optimizer = torch.optim.Adam(net.parameters())
    steps = EPOCHS * -(-len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=steps)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images[batch]), labels[batch]).backward()
            optimizer.step()
            schedule.step()
    return net.eval()


def main() -> None:
    """Train, write both files, and say how many held-out images the net gets right."""
    torch.set_num_threads(1)
    grey, labels, test_grey, test_labels = load_split()
    net = train(images_from_grey(grey), torch.from_numpy(labels).long())
    DATA.mkdir(exist_ok=True)
    np.savez_compressed(WEIGHTS, **{name: value.numpy() for name, value in net.state_dict().items()})
    np.savez_compressed(
        IMAGES, calibration=grey[:CALIBRATION_IMAGES], test=test_grey, test_labels=test_labels
    )
    with torch.no_grad():
        predicted = net(images_from_grey(test_grey)).argmax(1).numpy()
    sys.stdout.write(f"{int((predicted == test_labels).sum())} of {len(test_labels)} held-out images right\n")


if __name__ == "__main__":
    main()

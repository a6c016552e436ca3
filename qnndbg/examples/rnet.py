"""RNet, the second stage of the MTCNN face detector (100 k parameters), on real photographs.

The weights are those that facenet-pytorch ships (MIT; K. Zhang et al., "Joint Face Detection and
Alignment Using Multitask Cascaded Convolutional Networks", 2016). The images are the 100 faces and
100 other patches of "Labeled Faces in the Wild", 25x25 grey, that scikit-image ships: 16 of each kind
for calibration, the other 168 for evaluation, all of which the eager net gets right. Record it with::

    pip install scikit-image==0.26.0
    pip install --no-deps facenet-pytorch==2.6.0
    qnndbg record example:rnet --precision 16a8w
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from qnndbg.examples._packages import package_file
from qnndbg.model.target import Evaluation, Target

WEIGHTS_COMMAND = "pip install --no-deps facenet-pytorch==2.6.0"
IMAGES_COMMAND = "pip install scikit-image==0.26.0"
SIDE = 24
"""Height and width that RNet takes."""
FACES = 100
"""The first images of the set are faces, the rest are not."""
CALIBRATION_OF_EACH = 16


class RNet(nn.Module):
    """Float32 images (n, 3, 24, 24) in -1..1 to class probabilities (n, 2) and box shifts (n, 4).

    Class 1 is "face". The names of the layers are those of the weights.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 28, 3)
        self.prelu1 = nn.PReLU(28)
        self.pool1 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2 = nn.Conv2d(28, 48, 3)
        self.prelu2 = nn.PReLU(48)
        self.pool2 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv3 = nn.Conv2d(48, 64, 2)
        self.prelu3 = nn.PReLU(64)
        self.dense4 = nn.Linear(576, 128)
        self.prelu4 = nn.PReLU(128)
        self.dense5_1 = nn.Linear(128, 2)
        self.dense5_2 = nn.Linear(128, 4)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Probabilities first, so that they are what an accuracy is taken from."""
        x = self.pool1(self.prelu1(self.conv1(image)))
        x = self.pool2(self.prelu2(self.conv2(x)))
        x = self.prelu3(self.conv3(x))
        x = x.permute(0, 3, 2, 1).flatten(1)  # the weights come from a framework that stores width first
        x = self.prelu4(self.dense4(x))
        return self.dense5_1(x).softmax(1), self.dense5_2(x)


def load_images() -> torch.Tensor:
    """The 200 images as model inputs, float32 (200, 3, 24, 24) in -1..1."""
    grey = np.load(package_file("skimage", "data/lfw_subset.npy", IMAGES_COMMAND), allow_pickle=False)
    cut = torch.from_numpy(grey[:, :SIDE, :SIDE].astype(np.float32))
    return ((cut * 255.0 - 127.5) / 128.0).unsqueeze(1).repeat(1, 3, 1, 1)


def rnet() -> Target:
    """The pretrained net, one face as input, and real calibration and evaluation images.

    Raises:
        UsageError: facenet-pytorch or scikit-image is not installed.
    """
    net = RNet()
    weights = package_file("facenet_pytorch", "data/rnet.pt", WEIGHTS_COMMAND)
    net.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    samples = tuple((image,) for image in load_images().split(1))
    faces, others = samples[:FACES], samples[FACES:]
    held_out_faces, held_out_others = faces[CALIBRATION_OF_EACH:], others[CALIBRATION_OF_EACH:]
    return Target(
        module=net.eval(),
        inputs=held_out_faces[0],
        calibration=faces[:CALIBRATION_OF_EACH] + others[:CALIBRATION_OF_EACH],
        evaluation=Evaluation(
            inputs=held_out_faces + held_out_others,
            labels=(1,) * len(held_out_faces) + (0,) * len(held_out_others),
        ),
    )

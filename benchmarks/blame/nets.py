"""Random small nets out of the pieces that real ones are made of.

Every piece keeps the shape of what goes through it, so that any of them can follow any other, and a fault can
be put between any two. Values stay of order one, and biases are far from zero, so that to lose one shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import torch
from torch import nn
from torch.nn import functional

SIZE = 8
"""Height and width of an image."""
LENGTH = 12
"""Of a sequence; as large as its vectors, so that two axes can be mixed up unseen."""
CHANNELS = 12
CLASSES = 10
CALIBRATION = 4
"""Inputs that the quantiser sees; the last is the one that is run."""


class Function(nn.Module):
    """A function of the value, and of the modules that it uses."""

    def __init__(self, function: Callable[..., torch.Tensor], *parts: nn.Module) -> None:
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float32 of any shape to the same."""
        return self.function(x, *self.parts)


class Net(nn.Module):
    """Pieces one after the other, then a head."""

    def __init__(self, pieces: Sequence[nn.Module], head: nn.Module) -> None:
        super().__init__()
        self.pieces, self.head = nn.ModuleList(pieces), head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float32 to (1, classes) or (1, length, classes)."""
        for piece in self.pieces:
            x = piece(x)
        y: torch.Tensor = self.head(x)
        return y


class Attention(nn.Module):
    """One head; softmax over the keys."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(CHANNELS, CHANNELS) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float32 (1, length, channels) to the same shape."""
        scores = self.q(x) @ self.k(x).transpose(1, 2) * CHANNELS**-0.5
        y: torch.Tensor = scores.softmax(-1) @ self.v(x)
        return y


ACTIVATIONS: tuple[Callable[[], nn.Module], ...] = (nn.ReLU, lambda: nn.LeakyReLU(0.3), nn.ReLU6, nn.Sigmoid)


def random_net(random: Random, extra: Sequence[nn.Module] = (), *, image: bool | None = None) -> Net:
    """A net of two to four pieces and a head.

    Args:
        random: says which; torch's weights come from its seed too.
        extra: pieces to put in together, anywhere between two others.
        image: of images, or of sequences; either if it is None.
    """
    torch.manual_seed(random.randrange(2**31))
    image = random.random() < 0.5 if image is None else image
    make = IMAGE if image else SEQUENCE
    pieces = [random.choice(make)(random) for _ in range(random.randint(2, 4))]
    place = random.randint(1, len(pieces))
    net = Net([*pieces[:place], *extra, *pieces[place:]], _image_head(random) if image else _head())
    for module in net.modules():
        _enliven(module)
    return net.eval()


def is_image(net: nn.Module) -> bool:
    """Whether it takes images."""
    return any(isinstance(module, nn.Conv2d) for module in net.modules())


def example_inputs(
    random: Random, net: nn.Module, *, image: bool | None = None
) -> list[tuple[torch.Tensor, ...]]:
    """Inputs of a net, the last of which is to be run; images or sequences, as it takes them."""
    generator = torch.Generator().manual_seed(random.randrange(2**31))
    shape = (
        (1, CHANNELS, SIZE, SIZE) if (is_image(net) if image is None else image) else (1, LENGTH, CHANNELS)
    )
    return [(torch.randn(shape, generator=generator),) for _ in range(CALIBRATION)]


def _enliven(module: nn.Module) -> None:
    """Weights that keep the size of values, and biases that matter."""
    if isinstance(module, (nn.Conv2d, nn.Linear)):
        nn.init.normal_(module.weight, std=module.weight[0].numel() ** -0.5)
        assert module.bias is not None
        nn.init.uniform_(module.bias, 0.3, 0.8)
    elif isinstance(module, (nn.LayerNorm, nn.BatchNorm2d)):
        nn.init.uniform_(module.weight, 0.7, 1.3)
        nn.init.uniform_(module.bias, -0.5, 0.5)
    if isinstance(module, nn.BatchNorm2d):
        assert module.running_mean is not None
        assert module.running_var is not None
        nn.init.uniform_(module.running_mean, -0.3, 0.3)
        nn.init.uniform_(module.running_var, 0.7, 1.3)


def _conv(size: int = 3) -> nn.Conv2d:
    return nn.Conv2d(CHANNELS, CHANNELS, size, padding=size // 2)


def _linear() -> nn.Linear:
    return nn.Linear(CHANNELS, CHANNELS)


def _activation(random: Random) -> nn.Module:
    return random.choice(ACTIVATIONS)()


IMAGE: tuple[Callable[[Random], nn.Module], ...] = (
    lambda random: nn.Sequential(_conv(), _activation(random)),
    lambda random: nn.Sequential(_conv(1), nn.BatchNorm2d(CHANNELS), _activation(random)),
    lambda _: Function(lambda x, c: (x + c(x)) * 0.7, _conv()),
    lambda _: Function(lambda x, c: x - c(x), _conv(1)),
    lambda _: Function(lambda x, c: x * torch.sigmoid(c(x)) + x, _conv(1)),
    lambda _: nn.Sequential(_conv(), nn.MaxPool2d(3, 1, 1)),
    lambda random: Function(lambda x, a, b, f: b(f(a(x))) + x, _conv(1), _conv(), _activation(random)),
)
SEQUENCE: tuple[Callable[[Random], nn.Module], ...] = (
    lambda random: nn.Sequential(_linear(), _activation(random)),
    lambda _: nn.Sequential(_linear(), nn.LayerNorm(CHANNELS)),
    lambda _: Function(lambda x, a: x + a(x), Attention()),
    lambda _: Function(lambda x, f: x - f(x), _linear()),
    lambda _: Function(lambda x, f: x * torch.sigmoid(f(x)) + x, _linear()),
    lambda random: Function(lambda x, a, b, f: x + b(f(a(x))), _linear(), _linear(), _activation(random)),
)


def _image_head(random: Random) -> nn.Module:
    if random.random() < 0.5:
        return nn.Conv2d(CHANNELS, CLASSES, 1)
    linear = nn.Linear(CHANNELS, CLASSES)
    return Function(lambda x, f: f(functional.adaptive_avg_pool2d(x, 1).flatten(1)), linear)


def _head() -> nn.Module:
    return nn.Linear(CHANNELS, CLASSES)

"""Two factories of one's own, in a file of one's own: they import torch and nothing else.

Record them with::

    qnndbg record examples/mixed.py:mixed --precision 16a8w
    qnndbg record examples/mixed.py:overflow --precision fp16
"""

from __future__ import annotations

import torch
from torch import nn

Inputs = tuple[torch.Tensor, ...]


class Mixed(nn.Module):
    """Float32 images (n, 3, 32, 32) to (n, 10), through ops that the HTP computes in different ways."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.mix = nn.Conv2d(16, 16, 3, padding=1)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Conv, hardswish, relu6 with a residual add, mean, gelu, layer norm and linear."""
        x = nn.functional.hardswish(self.stem(image))
        x = nn.functional.relu6(self.mix(x)) + x
        x = nn.functional.gelu(x.mean((2, 3)))
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


class Overflow(nn.Module):
    """Raw 12-bit camera frames, float32 (n, 3, 16, 16) in 0..4095, to (n, 8), through their energy.

    The square goes up to some 6e6, where fp16 ends at 65504. The multiplication after it scales back
    by a power of two, so that every other value, the output included, is in range. The square is a
    product of two activations on purpose: of a product with a constant the dump shows the float32
    value, and the overflow appears at the op that reads it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.head = nn.Linear(8, 8)

    def forward(self, frame: torch.Tensor) -> torch.Tensor:
        """Conv, relu, square, scale back, mean and linear."""
        x = self.conv(frame).relu()
        x = x * x
        x = x * (1.0 / 4096.0)
        logits: torch.Tensor = self.head(x.mean((2, 3)))
        return logits


def mixed() -> tuple[nn.Module, Inputs, list[Inputs]]:
    """Model, example inputs and four calibration inputs, all random with a fixed seed.

    ::

        qnndbg record examples/mixed.py:mixed --precision 16a8w
    """
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, 32, 32),)
    module = Mixed().eval()
    return module, inputs, [(torch.randn(1, 3, 32, 32),) for _ in range(4)]


def overflow() -> tuple[nn.Module, Inputs]:
    """A model of which fp16 cannot hold one intermediate value, and example inputs.

    ::

        qnndbg record examples/mixed.py:overflow --precision fp16
    """
    torch.manual_seed(0)
    return Overflow().eval(), (torch.rand(1, 3, 16, 16) * 4095.0,)

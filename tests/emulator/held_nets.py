"""Small factories whose weights the HTP does not hold as they are; they import torch only."""

from __future__ import annotations

import torch
from torch import nn

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(64, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x))


def blocks() -> Made:
    """A weight whose blocks of 32 channels have scales that are no multiples of a sixteenth of each other."""
    torch.manual_seed(0)
    module = Blocks().eval()
    with torch.no_grad():
        module.conv.weight[:, :32] *= 3.3
    torch.manual_seed(1)
    return module, (torch.randn(1, 64, 4, 4),)


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.conv = nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.conv(self.norm(torch.relu(x)))
        return out


def normed() -> Made:
    """A batch norm that nothing can be fused with, whose statistics are far from 0 and 1."""
    torch.manual_seed(0)
    module = Normed().eval()
    with torch.no_grad():
        assert module.norm.running_mean is not None
        assert module.norm.running_var is not None
        module.norm.running_mean.copy_(torch.tensor([0.5, 20.0, -3.0, 0.1]))
        module.norm.running_var.copy_(torch.tensor([0.04, 100.0, 9.0, 2.0]))
        module.norm.weight.uniform_(0.5, 2.0)
        module.norm.bias.normal_()
    return module, (torch.randn(2, 4, 6, 6),)


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.large, self.small = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.large(x * 1e-3), self.small(x * 1e3)


def weighted() -> Made:
    """A weight with a value beyond what half floats hold, and one with values that they flush."""
    torch.manual_seed(0)
    module = Weighted().eval()
    with torch.no_grad():
        module.large.weight[0, 0] = 200_000.0
        module.small.weight *= 1e-7
    torch.manual_seed(1)
    return module, (torch.randn(4, 8),)

"""Models that meet NaN or infinities, which the HTP has none of."""

from __future__ import annotations

import math

import torch
from torch import nn

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.last(torch.relu(self.first(features)))
        return out


class Log(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(self.linear(x)) * 2.0


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.linear(x) + mask, -1) * 2.0


def masked(*, whole_row: bool = False) -> Made:
    """A mask of minus infinities, which a softmax takes for zero."""
    torch.manual_seed(0)
    mask = torch.zeros(4, 8)
    mask[:, 5:] = -math.inf
    if whole_row:
        mask[2] = -math.inf
    return Masked().eval(), (torch.randn(4, 8), mask)


def masked_row() -> Made:
    """A row of nothing but the mask, of which a softmax makes NaN."""
    return masked(whole_row=True)


def given_nan() -> Made:
    """One element of the input is NaN."""
    return _with(math.nan)


def given_infinity() -> Made:
    """One element of the input is infinite."""
    return _with(math.inf)


def log_of_negatives() -> Made:
    """NaN of finite inputs: the linear layer is negative here and there."""
    torch.manual_seed(0)
    return Log().eval(), (torch.randn(2, 8),)


def _with(odd: float) -> Made:
    torch.manual_seed(0)
    x = torch.randn(2, 8)
    x[0, 3] = odd
    return Mlp().eval(), (x,)

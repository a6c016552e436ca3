"""Small factories to record, each for one thing that lowering can get wrong; they import torch only."""

from __future__ import annotations

import sys

import torch
from torch import nn

Inputs = tuple[torch.Tensor, ...]
Made = tuple[nn.Module, Inputs]


def _seeded(module: type[nn.Module], *shape: int) -> Made:
    """A module and a normal input, of fixed seeds of their own."""
    torch.manual_seed(0)
    made = module().eval()
    torch.manual_seed(1)
    return made, (torch.randn(*shape),)


class TopK(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.topk(self.linear(x), 4))


def topk() -> Made:
    """Two outputs of one op, of float and int64."""
    return _seeded(TopK, 2, 8)


class Least(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.min(x, dim=1))


def least() -> Made:
    """Two outputs of one op, of which a pass makes two ops and leaves the first described as it was."""
    return _seeded(Least, 4, 10)


class Split(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b, c = self.linear(x).split((2, 4, 6), dim=-1)
        return torch.cat((torch.relu(c), b * 2.0, a + 1.0), dim=-1)


def split() -> Made:
    """Three outputs of one op, each of which another op reads."""
    return _seeded(Split, 2, 8)


class LayerNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.last = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.last(self.norm(torch.relu(self.first(x))))
        return logits


def layer_norm() -> Made:
    """An op of three outputs in the edge dialect, of which the HTP has one."""
    return _seeded(LayerNorm, 2, 8)


class Fallback(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.last = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x)).view(1, 2, 2, 2, 2, 1)
        x = x.permute(0, 3, 1, 4, 2, 5).reshape(1, 16)
        return torch.relu(self.last(x))


def fallback() -> Made:
    """Two partitions around a permute of rank 6, which the HTP does not have."""
    return _seeded(Fallback, 1, 8)


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        total: torch.Tensor = self.linear(x) + counts
        return total


def counted() -> Made:
    """A sum of floats and integers, which QNN's validator refuses: it is computed on the CPU."""
    torch.manual_seed(0)
    return Counted().eval(), (
        torch.randn(2, 8),
        torch.tensor([[1, 0, 2, 1], [0, 3, 1, 1]], dtype=torch.int32),
    )


class Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 8)
        self.linear = nn.Linear(8, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.linear(self.table(tokens))
        return logits


def embedding() -> Made:
    """An int64 input."""
    torch.manual_seed(0)
    return Embedding().eval(), (torch.tensor([[1, 5, 9, 0]]),)


class BoolOutput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 6)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.linear(x)
        return x, x > 0.25


def bool_output() -> Made:
    """A float and a bool output."""
    return _seeded(BoolOutput, 2, 8)


class ConstantOutput(nn.Module):
    constant: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 3)
        self.register_buffer("constant", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.linear(x), self.constant


def constant_output() -> Made:
    """An output that depends on no input."""
    return _seeded(ConstantOutput, 2, 8)


class Energy(nn.Module):
    """x * 200, beyond 65504 for some of x, then relu or another product.

    Args:
        reader: the op that reads what overflowed.
    """

    def __init__(self, reader: str) -> None:
        super().__init__()
        self.reader = reader
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.head = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x) * 200.0
        x = torch.relu(x) if self.reader == "relu" else x * 0.5
        logits: torch.Tensor = self.head((x * (1.0 / 1024.0)).mean((2, 3)))
        return logits


def _energy(reader: str) -> Made:
    torch.manual_seed(0)
    return Energy(reader).eval(), (torch.rand(1, 3, 8, 8) * 2000.0,)


def energy_relu() -> Made:
    """A product of an activation and a constant that overflows fp16, read by relu."""
    return _energy("relu")


def energy_mul() -> Made:
    """The same, read by a product."""
    return _energy("mul")


class Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x))


def contiguous() -> Made:
    """An image, as it should be."""
    return _seeded(Conv, 1, 3, 6, 6)


def channels_last() -> Made:
    """The same image in the memory format that the HTP misreads."""
    module, (x,) = contiguous()
    return module, (x.to(memory_format=torch.channels_last),)


class WholeNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.LayerNorm([4, 6, 6])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed: torch.Tensor = self.norm(self.conv(x))
        return normed


def refused() -> Made:
    """A layer norm that stays on the CPU, behind which QNN cannot compile the rest at 8a8w."""
    return _seeded(WholeNorm, 1, 3, 6, 6)


class State(nn.Module):
    hidden: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("hidden", torch.full((1, 4), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.linear(x) + self.hidden)
        self.hidden.copy_(x)
        return x * 2.0


def state() -> Made:
    """A buffer that is read and written."""
    return _seeded(State, 1, 4)


class OddOutputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[object, ...]:
        y = self.linear(x)
        return y, None, y, x, 3, y + 1.0


def odd_outputs() -> Made:
    """The same tensor twice, an input, a number and None."""
    return _seeded(OddOutputs, 1, 4)


class Half(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.linear(x.float())
        return logits


def half() -> Made:
    """An input of half floats, which no dump can hold."""
    module, (x,) = _seeded(Half, 1, 4)
    return module, (x.half(),)


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.drop = nn.Dropout(0.5)

    def forward(self, named: dict[str, torch.Tensor], listed: list[torch.Tensor]) -> dict[str, object]:
        x = self.drop(self.norm(self.conv(named["x"])))
        return {"sum": x + listed[0], "pair": (listed[1] * 2.0, None)}


def nested() -> tuple[nn.Module, tuple[object, ...]]:
    """A module in training mode of nested inputs and outputs, some of the inputs not contiguous."""
    module, (x,) = _seeded(Nested, 1, 3, 4, 4)
    listed = [x + 1.0, (x + 2.0).transpose(2, 3)]
    return module.train(), ({"x": x.to(memory_format=torch.channels_last)}, listed)


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1.0 if x.sum() > 0 else x - 1.0


def branches() -> Made:
    """Control flow that depends on data, which torch does not export."""
    return _seeded(Branch, 1, 4)


def float64() -> Made:
    """An input of a dtype that QNN has no tensor for."""
    module, (x,) = layer_norm()
    return module.double(), (x.double(),)


def raises() -> Made:
    """Fail, as loading weights may."""
    raise ZeroDivisionError("the weights are gone")


def nonsense() -> int:
    """Give what is no model."""
    return 42


def leaves() -> Made:
    """End the process, as a script does that is no factory."""
    sys.exit(3)


class Sum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.total, self.head = nn.Linear(16, 8), nn.Linear(8, 4)
        nn.init.constant_(self.total.weight, 0.25)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.total(x))
        return out


def clipped() -> tuple[nn.Module, Inputs, list[Inputs]]:
    """Sums of numbers of one sign, after a calibration with numbers of both: the sum clips, no input does."""
    torch.manual_seed(0)
    signs = [torch.randint(0, 2, (1, 16)) * 2.0 - 1.0 for _ in range(8)]
    return Sum().eval(), (torch.linspace(0.5, 1.0, 16)[None],), [(x,) for x in signs]


class Padded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 2, padding="same")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        same: torch.Tensor = self.conv(x)
        return same


def padded() -> Made:
    """An even kernel pads by one side only, with a pad op that the backend cannot build."""
    return _seeded(Padded, 1, 3, 8, 8)


class Long(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1


def long() -> Made:
    """Numbers of int64 that int32 cannot hold."""
    return Long(), (torch.tensor([[2**33 + 7, 5, 3, 1]]),)


class Coarse(nn.Module):
    """A weight that no input reaches makes the others small in their encoding."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.head = nn.Linear(32, 64), nn.Linear(64, 8)
        with torch.no_grad():
            self.linear.weight[0, 0] = 20.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.linear(x))
        out: torch.Tensor = self.head(torch.sqrt(x + 0.01))
        return out


def coarse() -> Made:
    """Sums of few steps of input times weight, and a root next to zero, where it is steep."""
    net, (x,) = _seeded(Coarse, 16, 32)
    x[:, 0] = 0.0
    return net, (x,)

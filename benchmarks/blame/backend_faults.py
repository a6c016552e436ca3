"""Nets that the HTP itself computes wrongly: formats that end too early, and ops that are wrong or coarse.

Each was measured with the versions that the project pins; another version may have mended one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random

import torch
from torch import nn
from torch.nn import functional

from benchmarks.blame import nets
from benchmarks.blame.answer import Answer
from benchmarks.blame.nets import CHANNELS, Function
from benchmarks.blame.quantiser_faults import Plant, sound_quantizer
from qnndbg.model.result import VerdictKind
from qnndbg.model.target import Target

COARSE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "avg_pool2d": lambda x: functional.avg_pool2d(x, 3, 1, 1, count_include_pad=True),
}
"""Ops that 16-bit activations show to be off by several steps, by the name that the graph has.

So are gelu, elu, sqrt and softmax, by less.
"""
WIDE = 400.0
"""A channel that much larger makes a step large for the others, and is taken away behind the op."""


def overflow(random: Random, precision: str, plant: Plant) -> Target:
    """Values go beyond 65504 and come back."""
    up = random.uniform(1.5e5, 5e5)
    piece = Function(lambda x: (x * 400.0) * (up / 400.0) * (1 / up))
    return _within(random, precision, plant, piece, "format", ("op:mul",), f"values times {up:.3g}, and back")


def overflow_matmul(random: Random, precision: str, plant: Plant) -> Target:
    """A layer's sums go beyond 65504, though its weights do not."""
    layer = nn.Linear(CHANNELS, CHANNELS)
    piece = Function(lambda x, f: f(x) * 5e-6, layer)
    target = _within(
        random,
        precision,
        plant,
        piece,
        "format",
        ("op:linear",),
        "weights of 50000, whose sums overflow",
        image=False,
    )
    with torch.no_grad():
        layer.weight *= 50000 / layer.weight.abs().max()
    return target


def flushed_op(random: Random, precision: str, plant: Plant) -> Target:
    """Values fall below the smallest half floats and come back."""
    down = random.uniform(2e-5, 8e-5)
    piece = Function(lambda x: x * 1e-3 * down / down * 1e3)
    return _within(
        random,
        precision,
        plant,
        piece,
        "format",
        ("op:mul", "op:div"),
        f"values times 1e-3 and {down:.3g}, and back",
    )


def flushed_constant(random: Random, precision: str, plant: Plant) -> Target:
    """A constant that half floats turn into zero."""
    small = torch.rand(CHANNELS) * 2e-8 + 1e-9
    piece = _Scaled(small, image := random.random() < 0.5)
    return _within(
        random,
        precision,
        plant,
        piece,
        "format",
        ("constant",),
        "a constant of 1e-8",
        image=image,
    )


def flushed_input(random: Random, precision: str, plant: Plant) -> Target:
    """Inputs that half floats cannot tell from zero."""
    net = nets.random_net(random)
    inputs = [(x[0] * 3e-8,) for x in nets.example_inputs(random, net)]
    plant(Answer(kinds=("format",), culprits=("input",), note="an input of 3e-8"))
    return Target(_Before(lambda x: x * 3e4 * 1e3, net), inputs[-1], inputs)


def large_input(random: Random, precision: str, plant: Plant) -> Target:
    """Inputs beyond what half floats hold."""
    net = nets.random_net(random)
    inputs = [(x[0] * 2e5,) for x in nets.example_inputs(random, net)]
    plant(Answer(kinds=("format",), culprits=("input",), note="an input of 2e5"))
    return Target(_Before(lambda x: x * 5e-6, net), inputs[-1], inputs)


def coarse_op(random: Random, precision: str, plant: Plant) -> Target:
    """An op that the HTP approximates, in a net without weights, whose 8 bits would cover it up."""
    name = random.choice(sorted(COARSE))
    net = nn.Sequential(_Wide(COARSE[name], random.randrange(CHANNELS)), nn.LeakyReLU(random.random()))
    inputs = nets.example_inputs(random, net, image=True)
    # The error is a few steps, and the large channel magnifies it: to say either is right.
    kinds: tuple[VerdictKind, ...] = ("backend", "amplification")
    plant(Answer(kinds=kinds, culprits=(f"op:{name}",), note=f"{name} is approximated"))
    return Target(net.eval(), inputs[-1], inputs, quantizer=_quantizer(precision))


def pad_outside(random: Random, precision: str, plant: Plant) -> Target:
    """A constant pad whose value lies outside of the range of what is padded."""
    value = random.choice((-1.0, 1.0)) * random.uniform(6.0, 12.0)
    cut = nets.SIZE

    def padded(x: torch.Tensor) -> torch.Tensor:
        y = functional.pad(torch.sigmoid(x), (2, 2), value=value)
        return functional.avg_pool2d(y, (1, 5), 1)[..., :cut]

    return _within(
        random,
        precision,
        plant,
        Function(padded),
        "backend",
        ("op:constant_pad_nd", "op:pad"),
        f"padded with {value:.1f}",
        image=True,
    )


def negative_index(random: Random, precision: str, plant: Plant) -> Target:
    """A constant index that counts from the end."""
    order = torch.randperm(CHANNELS, generator=torch.Generator().manual_seed(random.randrange(2**31)))
    order[::2] -= CHANNELS
    return _within(
        random, precision, plant, _Indexed(order), "backend", ("op:index",), "a negative index", image=True
    )


def argmin_pairs(random: Random, precision: str, plant: Plant) -> Target:
    """The smaller one of two, told by its index."""

    def chosen(x: torch.Tensor) -> torch.Tensor:
        index = x.unflatten(-1, (CHANNELS // 2, 2)).argmin(-1)
        return torch.cat((index, 1 - index), -1).to(torch.float32) * 3 + x

    note = "argmin over two"
    piece = Function(chosen)
    return _within(random, precision, plant, piece, "backend", ("op:argmin",), note, image=False)


def index_output(random: Random, precision: str, plant: Plant) -> Target:
    """Indices that leave the program."""
    op = random.choice(("topk", "sort"))

    def ranked(y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, indices = y.topk(3) if op == "topk" else y.sort()
        return values, indices

    net = nets.random_net(random, image=False)  # of four axes, topk stays on the CPU
    inputs = nets.example_inputs(random, net)
    plant(Answer(kinds=("backend",), culprits=(f"op:{op}", "output:1"), note=f"indices of {op}"))
    return Target(_Behind(net, ranked), inputs[-1], inputs, quantizer=_quantizer(precision))


def channels_last(random: Random, precision: str, plant: Plant) -> Target:
    """Inputs in the other layout."""
    net = nets.random_net(random, image=True)
    inputs = [(x[0].contiguous(memory_format=torch.channels_last),) for x in nets.example_inputs(random, net)]
    plant(Answer(kinds=("input",), culprits=("input",), note="a channels_last input"))
    return Target(net, inputs[-1], inputs, quantizer=_quantizer(precision))


def wide_integers(random: Random, precision: str, plant: Plant) -> Target:
    """Integers beyond int32."""
    value = random.randint(2**31, 2**40)
    shift = random.randint(1, 5)
    inputs = (torch.arange(CHANNELS, dtype=torch.int64) * 7 + value,)
    plant(
        Answer(
            kinds=("dtype", "backend"), culprits=("pass:I64toI32", "input"), note=f"int64 values of {value}"
        )
    )
    return Target(Function(lambda x: x + shift), inputs, [inputs])


class _Scaled(nn.Module):
    """Times a constant, and made large again."""

    small: torch.Tensor

    def __init__(self, small: torch.Tensor, image: bool) -> None:
        super().__init__()
        self.register_buffer("small", small.reshape(1, -1, 1, 1) if image else small)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float32 to the same shape."""
        return (x + 3.0) * 1e3 * self.small * 3e4


class _Wide(nn.Module):
    """An op on values one channel of which is large, and without that channel behind it."""

    large: torch.Tensor
    kept: torch.Tensor

    def __init__(self, op: Callable[[torch.Tensor], torch.Tensor], channel: int) -> None:
        super().__init__()
        self.op = op
        chosen = (torch.arange(CHANNELS) == channel).reshape(1, -1, 1, 1)
        self.register_buffer("large", torch.where(chosen, WIDE, 1.0))
        self.register_buffer("kept", torch.where(chosen, 0.0, 1.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float32 to the same shape."""
        return self.op(x * self.large) * self.kept


class _Indexed(nn.Module):
    order: torch.Tensor

    def __init__(self, order: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("order", order)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float32 to the same shape, channels in another order."""
        return x[:, self.order]


class _Before(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor], net: nn.Module) -> None:
        super().__init__()
        self.function, self.net = function, net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The function, then the net."""
        y: torch.Tensor = self.net(self.function(x))
        return y


class _Behind(nn.Module):
    def __init__(self, net: nn.Module, function: Callable[[torch.Tensor], tuple[torch.Tensor, ...]]) -> None:
        super().__init__()
        self.net, self.function = net, function

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The net, then the function."""
        return self.function(self.net(x))


def _within(
    random: Random,
    precision: str,
    plant: Plant,
    piece: nn.Module,
    kind: VerdictKind,
    culprits: tuple[str, ...],
    note: str,
    *,
    image: bool | None = None,
) -> Target:
    """A net with a piece somewhere in it."""
    net = nets.random_net(random, [piece], image=image)
    inputs = nets.example_inputs(random, net)
    plant(Answer(kinds=(kind,), culprits=culprits, note=note))
    return dataclasses.replace(
        Target(net, inputs[-1], inputs),
        quantizer=_quantizer(precision),
    )


def _quantizer(precision: str) -> Callable[[torch.fx.GraphModule], object] | None:
    return None if precision == "fp16" else sound_quantizer(precision)

"""Programs of a few nodes, and nets that torch exports, to put errors into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from msgspec.structs import replace
from torch import nn
from torch.nn import functional

from qnndbg.execute.program import Place, Program
from qnndbg.model.graph import Arg, Graph, Node, Output, QuantParams, Ref, TensorRef, TensorSpec

F32 = TensorSpec((2,), "float32")
INPUT = Node(name="x", op="placeholder", role="input", outputs=(F32,))


def call(name: str, target: str, *args: Arg, **fields: Any) -> Node:
    """A call of one output."""
    return replace(Node(name=name, op="call_function", target=target, args=args, outputs=(F32,)), **fields)


def encoding(scale: float, zero_point: int = 128, bits: int = 8) -> QuantParams:
    """An unsigned encoding of one scale."""
    limits = {"qmin": 0, "qmax": 2**bits - 1, "dtype": f"uint{bits}"}
    return QuantParams(scales=(scale,), zero_points=(zero_point,), **limits)


def program(nodes: Sequence[Node], *inputs: torch.Tensor, results: Sequence[str] = ()) -> Program:
    """A program of hand-made nodes, without constants; its result is the last one if none is named."""

    def load(ref: TensorRef) -> torch.Tensor:
        raise AssertionError(f"{ref} was loaded")

    outputs = tuple(Output(value=Ref(name)) for name in results or [nodes[-1].name])
    return Program(Graph(nodes=tuple(nodes), outputs=outputs), inputs, load)


def at(node: str, partition: int | None = None, output: int = 0) -> Place:
    """The place of a node's value."""
    return Place(partition, node, output)


class Residual(nn.Module):
    """Convolutions, an activation and a sum of two branches."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.mix = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.head = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.gelu(self.stem(x))
        x = x + functional.gelu(self.mix(x))
        head: torch.Tensor = self.head(x.mean((2, 3)))
        return head


class Perceptron(nn.Module):
    """Two layers around a gelu, of which one is skipped too, and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(5, 16), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.down(functional.gelu(self.up(x))) + x
        return y * torch.sigmoid(y)


class Attention(nn.Module):
    """Products of activations, and a softmax between them."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.mix(x).split(8, -1)
        mixed: torch.Tensor = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1) @ v
        return mixed


NETS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "residual": (Residual, (2, 3, 8, 8)),
    "perceptron": (Perceptron, (4, 5)),
    "attention": (Attention, (2, 6, 8)),
}

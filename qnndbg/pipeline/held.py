"""Inputs and constants of the partitions as places: what the HTP holds there, beside what the graph has.

A constant is what the QNN tensor was filled with, by its encoding; an input, what is left of it in the dtype
of its tensor. Owns that; what half floats make of either is :mod:`qnndbg.execute.local`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from msgspec.structs import replace

from qnndbg.analyze.causes import FLOOR_LIMIT
from qnndbg.execute.encoding import dequantise, fake_quantise
from qnndbg.execute.local import Local
from qnndbg.execute.noise import rms
from qnndbg.execute.program import Place
from qnndbg.model.attribution import over_floor
from qnndbg.model.graph import Graph, Node, QuantParams, TensorRef
from qnndbg.model.recording import Held, QnnGraph, QnnTensor

Load = Callable[[TensorRef], torch.Tensor]
INTEGERS = {
    "INT_8": torch.int8,
    "INT_16": torch.int16,
    "INT_32": torch.int32,
    "UINT_8": torch.uint8,
    "BOOL_8": torch.bool,
}
"""QNN dtypes that an integer input may be too wide for, and torch's of the same bits."""


@dataclass(slots=True)
class Constants:
    """The constants that QNN holds otherwise than the graph, as real numbers."""

    stored: Load
    """Gives a stored tensor."""
    real: dict[TensorRef, torch.Tensor] = field(default_factory=dict)
    """What the graph has, by names of their own."""
    held: dict[Place, torch.Tensor] = field(default_factory=dict)
    """What QNN has."""
    changes: dict[Place, str] = field(default_factory=dict)
    """How that comes, as half a sentence."""

    def load(self, ref: TensorRef) -> torch.Tensor:
        """A tensor of the graphs that :meth:`in_place` gives."""
        return self.real[ref] if ref in self.real else self.stored(ref)

    def in_place(self, qnn: QnnGraph, graph: Graph) -> Graph:
        """Note those of a partition, and give its graph with real numbers in their places.

        Integers of another scale are no integers of this one, so such a place can be told by real numbers
        only.
        """
        nodes = {node.name: node for node in graph.nodes}
        changed: dict[str, Node] = {}
        for tensor in qnn.tensors:
            node, held = nodes.get(tensor.node), tensor.held
            if held is None or node is None or node.constant is None:
                continue
            if held.tensor is None and held.encoding is None:
                continue
            own = _real(self.stored(node.constant), node.encoding)
            other = _real(self.stored(held.tensor or node.constant), held.encoding or node.encoding)
            if torch.equal(own, other):
                continue
            ref = TensorRef(f"{qnn.partition}:{node.name}", "float32", tuple(own.shape))
            place = Place(qnn.partition, node.name, 0)
            self.real[ref], self.held[place], self.changes[place] = own, other, _change(held)
            changed[node.name] = replace(node, constant=ref, encoding=None)
        return replace(graph, nodes=tuple(changed.get(node.name, node) for node in graph.nodes))


def _change(held: Held) -> str:
    if held.tensor is not None or held.encoding is None:
        return "its builder gives QNN other numbers"
    if held.encoding.scheme == "per_block":
        return "its builder gives QNN scales of blocks in 4 bits"
    return "its builder gives QNN other scales"


def _real(value: torch.Tensor, encoding: QuantParams | None) -> torch.Tensor:
    if encoding is None:
        return value
    return fake_quantise(value, encoding) if value.is_floating_point() else dequantise(value, encoding)


def input_in(tensor: QnnTensor, value: torch.Tensor) -> torch.Tensor:
    """What is left of an input in the dtype and encoding of its QNN tensor, in the input's own dtype."""
    if tensor.encoding is not None and value.is_floating_point():
        return fake_quantise(value, tensor.encoding).to(value.dtype)
    dtype = INTEGERS.get(tensor.dtype)
    return value if dtype is None or value.is_floating_point() else value.to(dtype).to(value.dtype)


def held_otherwise(
    qnn: Mapping[int, QnnGraph], partitions: Mapping[int, Graph], local: Local, constants: Constants
) -> tuple[dict[tuple[int, str], torch.Tensor], dict[str, str]]:
    """What the HTP holds of inputs and constants, by partition and QNN tensor; why some cannot be told.

    What half floats only round is left out, since the graph's own number tells it. Notes in ``local`` what
    came in where an input is narrowed.
    """
    found: dict[tuple[int, str], torch.Tensor] = {}
    problems = {}
    for number, graph in qnn.items():
        inputs = {node.name for node in partitions[number].nodes if node.role == "input"}
        for tensor in graph.tensors:
            place = Place(number, tensor.node, tensor.output)
            given = tensor.kind == "input" and tensor.node in inputs
            if given and place not in local.inputs:
                problems[tensor.name] = "the CPU could not evaluate it"
            elif given and place not in local.held:
                left = input_in(tensor, local.inputs[place])
                if not torch.equal(left, local.inputs[place]):
                    local.values[place], found[number, tensor.name] = local.inputs[place], left
            elif place in local.held and (place in constants.held or not _only_rounded(local, place)):
                found[number, tensor.name] = local.held[place]
    return found, problems


def _only_rounded(local: Local, place: Place) -> bool:
    error, floor = local.held[place].double() - local.values[place].double(), local.floors[place]
    peak = float(error.abs().max()) if error.numel() else 0.0
    return over_floor(rms(error), peak, floor.rms, floor.peak) <= FLOOR_LIMIT

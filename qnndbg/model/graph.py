"""A graph as data: names, arguments and encodings; no torch object, nothing executable by itself.

Targets are names such as ``aten.relu.default``; arguments are trees of JSON literals, references to
other nodes and atoms (a dtype, a device, an infinite float ...). ``execute.reference`` runs a graph
on the CPU; it resolves targets in known op namespaces only.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Ref(Struct, frozen=True, array_like=True, tag="ref"):
    """An argument that is the value of another node."""

    node: str


class Atom(Struct, frozen=True, array_like=True, tag="atom"):
    """An argument that JSON has no literal for."""

    kind: Literal["dtype", "layout", "memory_format", "device", "float", "complex", "symbol", "opaque"]
    text: str


class Slice(Struct, frozen=True, array_like=True, tag="slice"):
    """A Python slice; its parts are arguments themselves."""

    start: Arg
    stop: Arg
    step: Arg


class Seq(Struct, frozen=True, array_like=True, tag="seq"):
    """A list or tuple of arguments; operators take either."""

    items: tuple[Arg, ...]


Arg = None | bool | int | float | str | Ref | Atom | Slice | Seq


class QuantParams(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The encoding of a quantised tensor: ``real = (integer - zero_point) * scale``."""

    scheme: Literal["per_tensor", "per_channel", "per_block"] = "per_tensor"
    scales: tuple[float, ...]
    """One for the tensor, one per channel along ``axis``, or one per block in row-major order."""
    zero_points: tuple[int, ...]
    """As many as scales; in torch's sign (QNN's offset is its negative)."""
    qmin: int
    qmax: int
    dtype: str
    """Storage dtype on the torch side, such as ``uint8``; 16 bit activations are held in int32."""
    axis: int | None = None
    """The channel axis of a per-channel encoding."""
    block_size: tuple[int, ...] = ()
    """The shape of a block of a per-block encoding."""


class TensorRef(Struct, frozen=True, array_like=True):
    """A stored tensor: the digest of its bytes, and what is needed to read them."""

    digest: str
    dtype: str
    shape: tuple[int, ...]


class TensorSpec(Struct, frozen=True, array_like=True):
    """Shape and dtype of a value; a symbolic dimension is the text of its expression."""

    shape: tuple[int | str, ...]
    dtype: str


class Origin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a node comes from, in terms of the user's model."""

    ancestors: tuple[str, ...] = ()
    """Names of the ATen nodes of the exported graph that it descends from."""
    module_path: str = ""
    """Qualified name of the innermost ``nn.Module``, such as ``encoder.layers.0.mlp``."""
    module_class: str = ""
    source: str = ""
    """``file:line`` of the user's code."""
    created_by: str = ""
    """The pass that invented the node; empty if it descends from the user's model."""


class Node(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node of a graph."""

    name: str
    op: Literal["placeholder", "get_attr", "call_function", "call_module", "call_method", "output"]
    target: str = ""
    args: tuple[Arg, ...] = ()
    kwargs: dict[str, Arg] = {}
    outputs: tuple[TensorSpec | None, ...] = ()
    """One entry per output; None for an output that is no tensor."""
    multiple: bool = False
    """The node returns a sequence, even if of one element."""
    encoding: QuantParams | None = None
    """The encoding that a folded quantise/dequantise pair left on the node."""
    requantize: dict[str, QuantParams] = {}
    """User node to the other encoding in which that user reads this value."""
    axis_order: tuple[int, ...] | None = None
    """The permutation from logical to stored layout, if a layout pass set one."""
    layout_permute: bool = False
    """A permute that a layout pass invented."""
    quantized_io: bool = False
    """The value crosses the program's border as integers."""
    role: Literal["", "input", "parameter", "buffer", "constant", "state"] = ""
    """What a placeholder stands for; a state is a buffer that the graph also writes."""
    constant: TensorRef | None = None
    """The tensor behind a parameter, buffer, constant, state (its start value) or get_attr."""
    handle: tuple[int, ...] = ()
    """Debug handle; a number of its own numbering in each program."""
    tensors: tuple[str, ...] = ()
    """QNN tensor name of each output, empty where there is none; scratch tensors of the op may follow."""
    origin: Origin = Origin()


class Output(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One result of a graph: a user output, or a value written back into a state."""

    value: Arg
    role: Literal["output", "mutation"] = "output"
    target: str = ""
    """The placeholder of the state that a mutation writes."""


class Graph(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A snapshot of one method, or of one partition of it, in topological order."""

    nodes: tuple[Node, ...]
    outputs: tuple[Output, ...]
    stored_layout: bool = False
    """Layout permutes are explicit and nodes with an axis order hold their stored layout."""
    partitions: dict[str, int] = {}
    """Attribute name of a delegate to the number of its partition."""

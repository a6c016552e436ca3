"""Turns a live ``torch.fx`` graph into a :class:`qnndbg.model.graph.Graph`, copying no weight."""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from executorch.backends.qualcomm.utils.constants import (
    QCOM_AXIS_ORDER,
    QCOM_INSERTED_PERMUTE,
    QCOM_QUANT_ATTRS,
    QCOM_QUANTIZED_IO,
    QCOM_REQUANTIZE,
    QCOM_TENSOR_NAME,
)
from executorch.exir.lowered_backend_module import LoweredBackendModule
from msgspec.structs import replace
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from qnndbg.capture.provenance import Lineage
from qnndbg.capture.seen import Seen, Specs, survey
from qnndbg.capture.targets import target_name
from qnndbg.capture.tensors import array_from_tensor, state_of_tensor
from qnndbg.model.graph import (
    Arg,
    Atom,
    Graph,
    Node,
    Origin,
    Output,
    QuantParams,
    Ref,
    Seq,
    Slice,
    TensorRef,
)
from qnndbg.recording.writer import Writer

_ROLES = {
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
}
"""What a placeholder that is bound to a tensor stands for."""


class Binding(NamedTuple):
    """What a node stands for beside the op that it calls."""

    role: str = ""
    constant: TensorRef | None = None
    delegate: int = -1
    """The number of a delegate; negative if it is none."""


_UNBOUND = Binding()


class Weights:
    """Stores each weight once, hashing it only when its bytes can have changed."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], object, TensorRef]] = {}

    def ref(self, tensor: torch.Tensor) -> TensorRef | None:
        """The stored tensor; None for a tensor without bytes, as under fake mode."""
        if isinstance(tensor, torch._subclasses.FakeTensor) or tensor.is_meta:
            return None
        state = state_of_tensor(tensor)
        alive, known, ref = self._known.get(id(tensor), (None, None, None))
        # An address may be that of another tensor by now.
        if ref is None or alive is None or alive() is not tensor or known != state:
            ref = self._writer.tensor(*array_from_tensor(tensor))
            self._known[id(tensor)] = weakref.ref(tensor), state, ref
        return ref


def graph_from_program(
    program: ExportedProgram,
    weights: Weights,
    lineage: Lineage,
    module: torch.fx.GraphModule | None = None,
    *,
    stored_layout: bool = False,
    seen: Seen | None = None,
) -> Graph:
    """Snapshot an exported program, with its weights and states bound.

    Args:
        program: of any dialect.
        weights: where its parameters, buffers and constants go.
        lineage: where its nodes come from.
        module: the graph module that a pass made of the program's own, which is not yet in it.
        stored_layout: see :class:`Graph`.
        seen: the last snapshot of the same method or partition.
    """
    held = _held(program)
    values = {**program.constants, **program.state_dict}

    def bind(node: torch.fx.Node) -> Binding:
        role, key = held.get(node.name, ("input", ""))
        tensor = values.get(key)
        return Binding(role, weights.ref(tensor) if isinstance(tensor, torch.Tensor) else None)

    graph = graph_from_module(
        module or program.graph_module, weights, lineage, bind, stored_layout=stored_layout, seen=seen
    )
    holders = {key: name for name, (_, key) in held.items()}
    # By position: passes rename the output nodes before they update the signature.
    kinds = [(spec.kind.name, spec.target or "") for spec in program.graph_signature.output_specs]
    if len(kinds) != len(graph.outputs):
        return graph
    outputs = tuple(
        Output(value=output.value, role="mutation", target=holders.get(target, target))
        if kind in {"BUFFER_MUTATION", "USER_INPUT_MUTATION"}
        else output
        for output, (kind, target) in zip(graph.outputs, kinds, strict=True)
    )
    return graph if outputs == graph.outputs else replace(graph, outputs=outputs)


def _held(program: ExportedProgram) -> dict[str, tuple[str, str]]:
    """Name of each placeholder that is no input, to its role and the key of its tensor."""
    signature = program.graph_signature
    written = set(signature.buffers_to_mutate.values())
    held: dict[str, tuple[str, str]] = {}
    for spec in signature.input_specs:
        if spec.kind in _ROLES and spec.target is not None:
            state = spec.kind == InputKind.BUFFER and spec.target in written
            held[spec.arg.name] = ("state" if state else _ROLES[spec.kind], spec.target)
    return held


def graph_from_module(
    module: torch.fx.GraphModule,
    weights: Weights,
    lineage: Lineage,
    bind: Callable[[torch.fx.Node], Binding] | None = None,
    *,
    stored_layout: bool = False,
    seen: Seen | None = None,
) -> Graph:
    """Snapshot a graph module.

    Args:
        module: its get_attr nodes are bound to its tensors.
        weights: where these go.
        lineage: where its nodes come from.
        bind: what a placeholder stands for; by default each is an input.
        stored_layout: see :class:`Graph`; True if any layout permute is in it as well.
        seen: the last snapshot of the same method or partition.
    """
    seen = seen or Seen()
    nodes = list(module.graph.nodes)
    bound = [
        _binding(node, module, weights, bind) if node.op in {"placeholder", "get_attr"} else _UNBOUND
        for node in nodes
    ]
    outputs = [seen.specs(node.meta.get("val")) for node in nodes]

    def make() -> Graph:
        made = tuple(map(_node, nodes, map(lineage.origin, nodes), bound, outputs))
        return Graph(
            nodes=made,
            outputs=_outputs(nodes),
            stored_layout=stored_layout or any(node.layout_permute for node in made),
            partitions={
                str(n.target): b.delegate for n, b in zip(nodes, bound, strict=True) if b.delegate >= 0
            },
        )

    return seen.graph(survey(nodes, lineage, (stored_layout, bound, outputs)), make)


def _binding(
    node: torch.fx.Node,
    module: torch.fx.GraphModule,
    weights: Weights,
    bind: Callable[[torch.fx.Node], Binding] | None,
) -> Binding:
    if node.op == "placeholder":
        return bind(node) if bind else Binding("input")
    held = attribute(module, str(node.target))
    if isinstance(held, LoweredBackendModule):
        # Delegates are named by their number, in the order in which they were preprocessed.
        return Binding(delegate=int(str(node.target).rpartition("_")[2]))
    return Binding(constant=weights.ref(held) if isinstance(held, torch.Tensor) else None)


def _outputs(nodes: Sequence[torch.fx.Node]) -> tuple[Output, ...]:
    results = (_flat(node.args[0]) for node in nodes if node.op == "output")
    return tuple(Output(value=item) for item in next(results, ()))


def attribute(module: torch.nn.Module, path: str) -> object:
    """What a dotted attribute path leads to; None if it leads nowhere."""
    found: object = module
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def encoding_from_attrs(attrs: Mapping[str, Any] | None) -> QuantParams | None:
    """The encoding in a ``quant_attrs`` entry of node meta."""
    if not attrs:
        return None
    scales = attrs.get("scales", attrs.get("scale"))
    zero_points = attrs.get("zero_points", attrs.get("zero_point"))
    block = tuple(int(n) for n in attrs.get("block_size") or ())
    per_channel = "scales" in attrs
    return QuantParams(
        scheme="per_block" if block else "per_channel" if per_channel else "per_tensor",
        scales=tuple(finite(scale) for scale in _numbers(scales, float)),
        zero_points=_numbers(0 if zero_points is None else zero_points, int),
        qmin=int(attrs["quant_min"]),
        qmax=int(attrs["quant_max"]),
        dtype=str(attrs["dtype"]).removeprefix("torch."),
        axis=int(attrs["axis"]) if per_channel else None,
        block_size=block,
    )


def finite(scale: float) -> float:
    """A scale; the largest number for one that infinite values left infinite, as JSON has no infinity."""
    return scale if math.isfinite(scale) else sys.float_info.max


def _numbers(value: Any, kind: type) -> tuple[Any, ...]:
    if isinstance(value, torch.Tensor):
        return tuple(kind(v) for v in value.detach().reshape(-1).tolist())
    return (kind(value),)


def _node(node: torch.fx.Node, origin: Origin, bound: Binding, outputs: Specs) -> Node:
    meta = node.meta
    order, handle = meta.get(QCOM_AXIS_ORDER), meta.get("debug_handle")
    return Node(
        name=node.name,
        op=node.op,  # type: ignore[arg-type]  # fx says str; a kind that is none of ours is refused on reading
        target=target_name(node.target),
        args=tuple(_arg(a) for a in node.args),
        kwargs={str(k): _arg(v) for k, v in node.kwargs.items()},
        outputs=outputs,
        multiple=isinstance(meta.get("val"), (list, tuple)),
        encoding=encoding_from_attrs(meta.get(QCOM_QUANT_ATTRS)),
        requantize={
            user: e for user, a in meta.get(QCOM_REQUANTIZE, {}).items() if (e := encoding_from_attrs(a))
        },
        axis_order=None if order is None else tuple(int(i) for i in order),
        layout_permute=bool(meta.get(QCOM_INSERTED_PERMUTE)),
        quantized_io=bool(meta.get(QCOM_QUANTIZED_IO)),
        handle=()
        if handle is None
        else tuple(handle)
        if isinstance(handle, (tuple, list))
        else (int(handle),),
        tensors=_tensor_names(meta.get(QCOM_TENSOR_NAME) or {}),
        origin=origin,
        role=bound.role,  # type: ignore[arg-type]  # one of _ROLES
        constant=bound.constant,
    )


def _tensor_names(names: Mapping[int, str]) -> tuple[str, ...]:
    return tuple(names.get(i, "") for i in range(max(names) + 1)) if names else ()


def _flat(value: object) -> tuple[Arg, ...]:
    items = value if isinstance(value, (list, tuple)) else (value,)
    return tuple(_arg(item) for item in items)


def _arg(value: object) -> Arg:
    if isinstance(value, torch.fx.Node):
        return Ref(value.name)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else Atom("float", repr(value))
    if isinstance(value, (list, tuple)):
        return Seq(tuple(_arg(item) for item in value))
    if isinstance(value, slice):
        return Slice(_arg(value.start), _arg(value.stop), _arg(value.step))
    for kind, type_ in _ATOMS.items():
        if isinstance(value, type_):
            return Atom(kind, str(value).removeprefix("torch."))  # type: ignore[arg-type]
    return Atom("opaque", type(value).__name__)


_ATOMS: dict[str, Any] = {
    "dtype": torch.dtype,
    "layout": torch.layout,
    "memory_format": torch.memory_format,
    "device": torch.device,
    "complex": complex,
    "symbol": (torch.SymInt, torch.SymFloat, torch.SymBool),
}

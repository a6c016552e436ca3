"""Turns a live ``torch.fx`` graph into a :class:`qnndbg.model.graph.Graph`, copying no weight."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

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
from torch.utils.weak import WeakIdKeyDictionary

from qnndbg.capture.provenance import Lineage
from qnndbg.capture.targets import target_name
from qnndbg.capture.tensors import array_from_tensor
from qnndbg.model.graph import (
    Arg,
    Atom,
    Graph,
    Node,
    Output,
    QuantParams,
    Ref,
    Seq,
    Slice,
    TensorRef,
    TensorSpec,
)
from qnndbg.recording.writer import Writer


class Weights:
    """Stores each weight once, hashing it only when its bytes can have changed."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._known: WeakIdKeyDictionary = WeakIdKeyDictionary()

    def ref(self, tensor: torch.Tensor) -> TensorRef | None:
        """The stored tensor; None for a tensor without bytes, as under fake mode."""
        if isinstance(tensor, torch._subclasses.FakeTensor) or tensor.is_meta:
            return None
        # A tensor made for inference counts no versions, since nothing may write to it in place.
        version = 0 if tensor.is_inference() else tensor._version
        state = (version, tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.shape)
        known = self._known.get(tensor)
        if known is None or known[0] != state:
            known = (state, self._writer.tensor(*array_from_tensor(tensor)))
            self._known[tensor] = known
        ref: TensorRef = known[1]
        return ref


def graph_from_program(
    program: ExportedProgram,
    weights: Weights,
    lineage: Lineage,
    module: torch.fx.GraphModule | None = None,
    *,
    stored_layout: bool = False,
) -> Graph:
    """Snapshot an exported program, with its weights and states bound.

    Args:
        program: of any dialect.
        weights: where its parameters, buffers and constants go.
        lineage: where its nodes come from.
        module: the graph module that a pass made of the program's own, which is not yet in it.
        stored_layout: see :class:`Graph`.
    """
    signature = program.graph_signature
    held: dict[str, tuple[str, str]] = {}
    written = {v: k for k, v in signature.buffers_to_mutate.items()}
    held |= {name: ("parameter", key) for name, key in signature.inputs_to_parameters.items()}
    held |= {
        name: ("state" if key in written else "buffer", key)
        for name, key in signature.inputs_to_buffers.items()
    }
    held |= {name: ("constant", key) for name, key in signature.inputs_to_lifted_tensor_constants.items()}
    values = {**program.constants, **program.state_dict}

    def bind(node: torch.fx.Node) -> dict[str, Any]:
        role, key = held.get(node.name, ("input", ""))
        tensor = values.get(key)
        return {"role": role, "constant": weights.ref(tensor) if isinstance(tensor, torch.Tensor) else None}

    graph = graph_from_module(
        module or program.graph_module, weights, lineage, bind, stored_layout=stored_layout
    )
    holders = {key: name for name, (_, key) in held.items()}
    # By position: passes rename the output nodes before they update the signature.
    kinds = [(spec.kind.name, spec.target or "") for spec in signature.output_specs]
    if len(kinds) != len(graph.outputs):
        return graph
    outputs = tuple(
        Output(value=output.value, role="mutation", target=holders.get(target, target))
        if kind in {"BUFFER_MUTATION", "USER_INPUT_MUTATION"}
        else output
        for output, (kind, target) in zip(graph.outputs, kinds, strict=True)
    )
    return replace(graph, outputs=outputs)


def graph_from_module(
    module: torch.fx.GraphModule,
    weights: Weights,
    lineage: Lineage,
    bind: Callable[[torch.fx.Node], dict[str, Any]] | None = None,
    *,
    stored_layout: bool = False,
) -> Graph:
    """Snapshot a graph module.

    Args:
        module: its get_attr nodes are bound to its tensors.
        weights: where these go.
        lineage: where its nodes come from.
        bind: gives role and constant of a placeholder; by default each is an input.
        stored_layout: see :class:`Graph`; True if any layout permute is in it as well.
    """
    nodes: list[Node] = []
    outputs: tuple[Output, ...] = ()
    partitions: dict[str, int] = {}
    for node in module.graph.nodes:
        extra: dict[str, Any] = {}
        if node.op == "placeholder":
            extra = bind(node) if bind else {"role": "input"}
        elif node.op == "get_attr":
            held = attribute(module, str(node.target))
            extra = {"constant": weights.ref(held) if isinstance(held, torch.Tensor) else None}
            if isinstance(held, LoweredBackendModule):
                # Delegates are named by their number, in the order in which they were preprocessed.
                partitions[str(node.target)] = int(str(node.target).rpartition("_")[2])
        elif node.op == "output":
            outputs = tuple(Output(value=item) for item in _flat(node.args[0]))
        nodes.append(_node(node, lineage, extra))
    return Graph(
        nodes=tuple(nodes),
        outputs=outputs,
        stored_layout=stored_layout or any(node.layout_permute for node in nodes),
        partitions=partitions,
    )


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
        scales=_numbers(scales, float),
        zero_points=_numbers(0 if zero_points is None else zero_points, int),
        qmin=int(attrs["quant_min"]),
        qmax=int(attrs["quant_max"]),
        dtype=str(attrs["dtype"]).removeprefix("torch."),
        axis=int(attrs["axis"]) if per_channel else None,
        block_size=block,
    )


def _numbers(value: Any, kind: type) -> tuple[Any, ...]:
    if isinstance(value, torch.Tensor):
        return tuple(kind(v) for v in value.detach().reshape(-1).tolist())
    return (kind(value),)


def _node(node: torch.fx.Node, lineage: Lineage, extra: Mapping[str, Any]) -> Node:
    meta = node.meta
    val = meta.get("val")
    many = isinstance(val, (list, tuple))
    order, handle = meta.get(QCOM_AXIS_ORDER), meta.get("debug_handle")
    return Node(
        name=node.name,
        op=node.op,  # type: ignore[arg-type]  # fx says str; a kind that is none of ours is refused on reading
        target=target_name(node.target),
        args=tuple(_arg(a) for a in node.args),
        kwargs={str(k): _arg(v) for k, v in node.kwargs.items()},
        outputs=() if val is None else tuple(_spec(v) for v in (val if many else (val,))),
        multiple=many,
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
        origin=lineage.origin(node),
        **extra,
    )


def _tensor_names(names: Mapping[int, str]) -> tuple[str, ...]:
    return tuple(names.get(i, "") for i in range(max(names, default=-1) + 1))


def _spec(value: object) -> TensorSpec | None:
    if not isinstance(value, torch.Tensor):
        return None
    return TensorSpec(
        tuple(d if isinstance(d, int) else str(d) for d in value.shape),
        str(value.dtype).removeprefix("torch."),
    )


def _flat(value: object) -> tuple[Arg, ...]:
    items = value if isinstance(value, (list, tuple)) else (value,)
    return tuple(_arg(item) for item in items)


def _arg(value: object) -> Arg:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else Atom("float", repr(value))
    if isinstance(value, torch.fx.Node):
        return Ref(value.name)
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

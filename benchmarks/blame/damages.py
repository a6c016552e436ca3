"""What a wrong pass may do to a graph: each damage with the nodes that it fits.

They work on all graphs of the lowering: ATen with attributes (annotation), exported programs, the edge
dialect with or without quantise ops, and a partition's graph whose encodings are in ``meta``. A damage leaves
shapes as they are, so that the lowering goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule, Node

QUANT_ATTRS = "quant_attrs"
LINEAR = frozenset({"conv2d", "convolution", "linear"})
SHIFTED = 0.4
"""An encoding that holds this part of its range clips what is beyond, and is told from rounding."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One kind of damage to a graph."""

    name: str
    nodes: tuple[Node, ...]
    do: Callable[[Node], None]
    also: tuple[str, ...] = ()
    """Ops that may be named instead of the node's own."""


def op_name(node: Node) -> str:
    """``conv2d`` of ``aten.conv2d.default``; a constant's is that of the op that reads it."""
    if node.op != "call_function":
        readers = [reader for reader in node.users if reader.op == "call_function"]
        return op_name(readers[0]) if readers else ""
    parts = str(node.target).removeprefix("torch.ops.").split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def damages_of(graph_module: GraphModule, program: Any, pipeline: str) -> Iterator[Damage]:
    """The damages that fit a graph.

    Args:
        graph_module: in any form that the pipelines know.
        program: the exported program that holds its parameters; the module itself where they are attributes.
        pipeline: later ones work on copies of the parameters.
    """
    calls = [node for node in graph_module.graph.nodes if node.op == "call_function" and node.users]
    makers: list[Callable[[list[Node]], Damage]] = [_operands, _axis, _encoding, _scalar, _padding]
    if pipeline in {"export", "to_edge"}:
        makers.append(_rounding)
    # A partition's linear layers have to have a bias.
    biased = LINEAR if pipeline in {"annotation", "export"} else LINEAR - {"linear"}
    makers.append(partial(_bias, biased))
    for make in makers:
        damage = make(calls)
        if damage.nodes:
            yield damage
    constants = _constant(graph_module, program, calls)
    if constants.nodes and pipeline in {"annotation", "export"}:
        yield constants


def _bias(ops: frozenset[str], calls: list[Node]) -> Damage:
    fits = tuple(n for n in calls if op_name(n) in ops and len(n.args) > 2 and isinstance(n.args[2], Node))
    return Damage("dropped the bias", fits, lambda node: node.update_arg(2, None))


def _operands(calls: list[Node]) -> Damage:
    def fits(node: Node) -> bool:
        pair = node.args[:2]
        if op_name(node) not in {"sub", "div", "matmul", "bmm"} or len(pair) < 2:
            return False
        shapes = {_shape(arg) for arg in pair}
        return len(shapes) == 1 and None not in shapes and pair[0] is not pair[1]

    def swap(node: Node) -> None:
        node.args = (node.args[1], node.args[0], *node.args[2:])

    return Damage("swapped the operands", tuple(n for n in calls if fits(n)), swap)


def _axis(calls: list[Node]) -> Damage:
    """Softmax over the other of the last two axes."""

    def fits(node: Node) -> bool:
        return op_name(node) in {"softmax", "_softmax"} and node.args[1] in {-1, 2}

    return Damage("changed the axis", tuple(n for n in calls if fits(n)), lambda n: n.update_arg(1, 1))


def _encoding(calls: list[Node]) -> Damage:
    """A scale, in a pair of quantise ops or in the notes on a node."""
    pairs = tuple(n for n in calls if "quantize_per_tensor" in str(n.target) and "de" not in op_name(n)[:2])
    pairs = tuple(n for n in pairs if isinstance(n.args[1], float) and _by_pairs(n))
    noted = tuple(
        n
        for n in calls
        if "scale" in (n.meta.get(QUANT_ATTRS) or {})
        and "quantize" not in str(n.target)
        and isinstance(n.meta[QUANT_ATTRS]["scale"], float)
    )

    def shrink(node: Node) -> None:
        if node in pairs:
            scale: Any = node.args[1]
            for one in (node, *node.users):
                one.update_arg(1, scale * SHIFTED)
            return
        attributes = dict(node.meta[QUANT_ATTRS])
        attributes["scale"] *= SHIFTED
        node.meta[QUANT_ATTRS] = attributes

    also = sorted({op_name(n.args[0]) for n in pairs if isinstance(n.args[0], Node)})
    also += sorted({op_name(user) for n in pairs for user in n.users})
    return Damage("shrank an encoding", pairs or noted, shrink, tuple(also))


def _by_pairs(node: Node) -> bool:
    return all("dequantize_per_tensor" in str(user.target) for user in node.users)


def _scalar(calls: list[Node]) -> Damage:
    """Bounds and slopes."""
    changed = {"leaky_relu": (1, 0.9), "hardtanh": (2, 1.0), "clamp": (2, 1.0)}

    def fits(node: Node) -> bool:
        place, _ = changed.get(op_name(node), (0, 0.0))
        return bool(place) and len(node.args) > place and isinstance(node.args[place], (int, float))

    def change(node: Node) -> None:
        node.update_arg(*changed[op_name(node)])

    return Damage("changed a constant argument", tuple(n for n in calls if fits(n)), change)


def _padding(calls: list[Node]) -> Damage:
    """A 3 x 3 convolution whose taps are twice as far apart; its padding grows as much."""

    def fits(node: Node) -> bool:
        if op_name(node) not in {"conv2d", "convolution"} or not isinstance(node.args[1], Node):
            return False
        weight = _shape(node.args[1])
        spread = [list(a) if isinstance(a, (list, tuple)) else a for a in node.args[3:6]]
        return weight is not None and weight[-2:] == (3, 3) and spread[:2] == [[1, 1], [1, 1]]

    def widen(node: Node) -> None:
        args = [*node.args, *[[1, 1]] * max(0, 6 - len(node.args))]
        args[4], args[5] = [2, 2], [2, 2]
        node.args = tuple(args)

    return Damage("dilated the kernel", tuple(n for n in calls if fits(n)), widen)


def _rounding(calls: list[Node]) -> Damage:
    """Whole numbers only, where no encoding can be in the way.

    A cast to integers and back would not do, since a later pass of the backend fuses the two into nothing.
    """
    quantised = any("quantize" in str(n.target) or n.meta.get(QUANT_ATTRS) for n in calls)

    def fits(node: Node) -> bool:
        value = node.meta.get("val")
        floats = isinstance(value, torch.Tensor) and value.dtype == torch.float32
        return floats and not quantised and op_name(node) in {"conv2d", "convolution", "linear", "mul", "add"}

    def put_in(node: Node) -> None:
        from executorch.exir.dialects._ops import ops as exir_ops

        edge = "EdgeOpOverload" in type(node.target).__name__
        target: Any = exir_ops.edge.aten.round.default if edge else torch.ops.aten.round.default
        with node.graph.inserting_after(node):
            whole = node.graph.call_function(target, (node,))
        node.replace_all_uses_with(whole, delete_user_cb=lambda user: user is not whole)
        whole.meta["val"] = node.meta["val"].clone()

    return Damage("rounded to whole numbers", tuple(n for n in calls if fits(n)), put_in, ("round",))


def _constant(graph_module: GraphModule, program: Any, calls: list[Node]) -> Damage:
    """The rows of a weight in another order."""
    weights = {}
    for node in calls:
        held = _behind(node.args[1]) if op_name(node) in LINEAR else None
        where = _storage(held, graph_module, program) if held is not None else None
        if held is not None and where is not None:
            weights[held] = where

    def roll(node: Node) -> None:
        holder, name = weights[node]
        old = holder[name] if isinstance(holder, dict) else getattr(holder, name)
        new = old.detach().roll(1, 0).clone()
        if isinstance(old, torch.nn.Parameter):
            new = torch.nn.Parameter(new, requires_grad=False)
        if isinstance(holder, dict):
            holder[name] = new
        else:
            setattr(holder, name, new)

    return Damage("rolled a weight", tuple(weights), roll, tuple(LINEAR))


def _behind(node: Any) -> Node | None:
    """A weight behind its quantise ops."""
    while isinstance(node, Node) and node.op == "call_function" and "quantize" in str(node.target):
        node = node.args[0]
    return node if isinstance(node, Node) and node.op in {"get_attr", "placeholder"} else None


def _storage(node: Node, graph_module: GraphModule, program: Any) -> tuple[Any, str] | None:
    """What holds a constant, and under which name."""
    if node.op == "get_attr":
        owner: Any = graph_module
        *path, name = str(node.target).split(".")
        for part in path:
            owner = getattr(owner, part)
        return owner, name
    signature = getattr(program, "graph_signature", None)
    if signature is None:
        return None
    name = signature.inputs_to_parameters.get(node.name) or signature.inputs_to_buffers.get(node.name)
    return (program.state_dict, name) if name in program.state_dict else None


def _shape(node: Any) -> tuple[int, ...] | None:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return tuple(value.shape) if isinstance(value, torch.Tensor) else None

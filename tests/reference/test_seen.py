"""A graph that is changed in place, in any way, is never taken for what it was at the last snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.backends.qualcomm.utils import constants
from torch import nn

from qnndbg.capture.provenance import Lineage
from qnndbg.capture.seen import Seen
from qnndbg.capture.snapshot import graph_from_module
from qnndbg.model.graph import Graph
from qnndbg.recording.schema import encode
from tests.reference.conftest import Store

RELU, NEG = torch.ops.aten.relu.default, torch.ops.aten.neg.default
Module = torch.fx.GraphModule


def fake(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    with torch._subclasses.FakeTensorMode():
        return torch.empty(shape, dtype=dtype)


def made() -> Module:
    """A graph with every kind of entry that a snapshot takes."""
    root = nn.Module()
    root.weight = nn.Parameter(torch.ones(3))
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    weight = graph.get_attr("weight")
    node = graph.create_node("call_function", RELU, (x, [weight, 1], 2), {"alpha": 1}, name="node")
    after = graph.create_node("call_function", RELU, (node,), name="after")
    graph.output((after,))
    scales = {"scales": torch.tensor([0.5, 0.25]), "zero_points": torch.tensor([0, 1]), "axis": 0}
    limits = {"quant_min": -128, "quant_max": 127, "dtype": torch.int8}
    node.meta |= {
        "val": [fake(2, 3), None],
        "debug_handle": [1, 2],
        "stack_trace": f'File "{__file__}", line 3, in f',
        "nn_module_stack": {"outer": ("", nn.Module), "inner": ("layers.0", nn.ReLU)},
        constants.QCOM_QUANT_ATTRS: {**scales, **limits},
        constants.QCOM_REQUANTIZE: {"after": {"scale": 0.5, "zero_point": 0, **limits}},
        constants.QCOM_AXIS_ORDER: [0, 2, 3, 1],
        constants.QCOM_TENSOR_NAME: {0: "node@0"},
    }
    return Module(root, graph)


def find(module: Module, name: str) -> torch.fx.Node:
    found: torch.fx.Node = next(node for node in module.graph.nodes if node.name == name)
    return found


def meta(name: str, change: Callable[[Any], object]) -> Callable[[Module], None]:
    """A change inside of an entry of the node's meta."""

    def run(module: Module) -> None:
        change(find(module, "node").meta[name])

    return run


def entry(name: str, value: object) -> Callable[[Module], None]:
    """Another entry in the node's meta."""

    def run(module: Module) -> None:
        find(module, "node").meta[name] = value

    return run


def weight(change: Callable[[torch.Tensor], object]) -> Callable[[Module], None]:
    def run(module: Module) -> None:
        with torch.no_grad():
            change(module.weight)  # type: ignore[arg-type]

    return run


def attribute(name: str, value: object) -> Callable[[Module], None]:
    def run(module: Module) -> None:
        setattr(find(module, "node"), name, value)

    return run


def argument(index: int, value: object) -> Callable[[Module], None]:
    def run(module: Module) -> None:
        find(module, "node").update_arg(index, value)  # type: ignore[arg-type]

    return run


def insert(module: Module) -> None:
    node = find(module, "node")
    with module.graph.inserting_after(node):
        module.graph.create_node("call_function", NEG, (node,), name="unused")


def move(module: Module) -> None:
    find(module, "weight").prepend(find(module, "x"))
    find(module, "x").prepend(find(module, "weight"))


def set_data(name: str) -> Callable[[Module], None]:
    def run(module: Module) -> None:
        tensor = (
            module.weight if name == "weight" else find(module, "node").meta[constants.QCOM_QUANT_ATTRS][name]
        )
        tensor.data = tensor.data + 1  # type: ignore[operator]

    return run


QUANT, REQUANT = constants.QCOM_QUANT_ATTRS, constants.QCOM_REQUANTIZE
CHANGES: dict[str, Callable[[Module], None]] = {
    "operator": attribute("target", NEG),
    "name": attribute("name", "other"),
    "argument": argument(2, 3),
    "kind of an argument": argument(2, 2.0),
    "kind of an argument in a list": argument(1, [2, True]),
    "edge": lambda module: find(module, "after").replace_input_with(find(module, "node"), find(module, "x")),
    "keyword": attribute("kwargs", {"alpha": 2}),
    "shape": entry("val", [fake(3, 2), None]),
    "dtype of one of several": meta("val", lambda val: val.__setitem__(0, fake(2, 3, dtype=torch.int32))),
    "shape in place": meta("val", lambda val: val[0].t_()),
    "further output": meta("val", lambda val: val.append(fake(1))),
    "one output for a list": lambda module: find(module, "after").meta.update(val=fake(1)),
    "handle": meta("debug_handle", lambda handle: handle.append(3)),
    "line": entry("stack_trace", f'File "{__file__}", line 8, in f'),
    "module": meta("nn_module_stack", lambda stack: stack.update(inner=("layers.1", nn.ReLU))),
    "limit": meta(QUANT, lambda attrs: attrs.update(quant_max=126)),
    "storage": meta(QUANT, lambda attrs: attrs.update(dtype=torch.uint8)),
    "scale": meta(QUANT, lambda attrs: attrs.update(scales=torch.tensor([0.5, 0.125]))),
    "scale in place": meta(QUANT, lambda attrs: attrs["scales"].mul_(2)),
    "data of a scale": set_data("scales"),
    "missing entry": meta(QUANT, lambda attrs: attrs.pop("zero_points")),
    "no encoding": lambda module: find(module, "node").meta.pop(QUANT),
    "requantisation": meta(REQUANT, lambda users: users["after"].update(scale=0.25)),
    "user of a requantisation": meta(REQUANT, lambda users: users.update(other=users.pop("after"))),
    "axis order": meta(constants.QCOM_AXIS_ORDER, lambda order: order.reverse()),
    "tensor": meta(constants.QCOM_TENSOR_NAME, lambda names: names.update({1: "node@1"})),
    "layout permute": entry(constants.QCOM_INSERTED_PERMUTE, True),
    "border": entry(constants.QCOM_QUANTIZED_IO, torch.uint8),
    "further node": insert,
    "order": move,
    "constant": weight(lambda tensor: tensor.mul_(2)),
    "data of a constant": set_data("weight"),
    "another constant": lambda module: setattr(module, "weight", nn.Parameter(torch.zeros(3))),
}


class Camera:
    """Takes snapshots of one graph, with and without the memory of the last."""

    def __init__(self, store: Store, module: Module) -> None:
        self.store, self.module, self.seen = store, module, Seen()
        self.lineage = Lineage()
        self.lineage.begin(module.graph)

    def take(self, seen: Seen | None) -> Graph:
        self.lineage.update(self.module.graph, "Pass")
        return graph_from_module(self.module, self.store.weights, self.lineage, seen=seen)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_change_in_place_is_seen(store: Store, change: Callable[[Module], None]) -> None:
    camera = Camera(store, made())
    before = camera.take(camera.seen)
    change(camera.module)
    after = camera.take(camera.seen)
    assert encode(after) != encode(before)
    assert encode(after) == encode(camera.take(None))


def test_graph_that_nothing_changed_is_the_same(store: Store) -> None:
    camera = Camera(store, made())
    first = camera.take(camera.seen)
    assert camera.take(camera.seen) is first
    assert encode(camera.take(None)) == encode(first)


def test_graph_that_was_traced_anew_is_looked_at_again(store: Store) -> None:
    camera = Camera(store, made())
    first = camera.take(camera.seen)
    camera.module = Module(camera.module, torch.fx.Graph())
    camera.module.graph.output(camera.module.graph.graph_copy(made().graph, {}))
    again = camera.take(camera.seen)
    assert again is not first
    assert encode(again) == encode(camera.take(None))


def test_dimension_that_is_not_fixed_is_compared_by_its_expression(store: Store) -> None:
    class Double(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat((x, x))

    shapes = ({0: torch.export.Dim("batch", min=2, max=9)},)
    program = torch.export.export(Double(), (torch.ones(4, 3),), dynamic_shapes=shapes, strict=True)
    guards = str(program.range_constraints)
    camera = Camera(store, program.graph_module)
    first = camera.take(camera.seen)
    assert camera.take(camera.seen) is first
    assert str(program.range_constraints) == guards

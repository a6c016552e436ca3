"""What a snapshot takes of a live graph: names, arguments, shapes, encodings, roles, and each weight once."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.backends.qualcomm.utils import constants
from executorch.exir import to_edge
from torch import nn

from qnndbg.capture.provenance import Lineage
from qnndbg.capture.snapshot import encoding_from_attrs, graph_from_module
from qnndbg.capture.targets import target_name
from qnndbg.execute.operators import find_operator
from qnndbg.model.graph import Arg, Atom, Graph, Node, Output, QuantParams, Ref, Seq, Slice, TensorSpec
from tests.reference.conftest import Store

X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Calls(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def exported(function: Callable[..., Any], *inputs: torch.Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(Calls(function), inputs, strict=True)


def by_name(graph: Graph) -> dict[str, Node]:
    return {node.name: node for node in graph.nodes}


def called(target: Any, *args: Any, **kwargs: Any) -> torch.fx.GraphModule:
    """A graph of one input and one call; ``x`` among the arguments stands for the input."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    inputs: Any = torch.fx.node.map_aggregate(args, lambda arg: x if arg == "x" else arg)
    node = graph.call_function(target, inputs, kwargs)
    node.name = "node"
    graph.output((node,))
    return torch.fx.GraphModule(nn.Module(), graph)


def snapshot_of_meta(store: Store, **meta: Any) -> Node:
    module = called(torch.ops.aten.relu.default, "x")
    next(n for n in module.graph.nodes if n.name == "node").meta.update(meta)
    return by_name(store.snapshot(module))["node"]


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (torch.ops.aten.relu.default, "aten.relu.default"),
        (torch.ops.aten.add.Tensor, "aten.add.Tensor"),
        (torch.ops.aten.add_.Tensor, "aten.add_.Tensor"),
        (operator.getitem, "operator.getitem"),
        (torch.sym_max, "torch.sym_max"),
        (torch.ops.higher_order.cond, "higher_order.cond"),
        ("layers.0.weight", "layers.0.weight"),
    ],
)
def test_targets_have_names(target: object, name: str) -> None:
    assert target_name(target) == name


def test_operators_of_the_edge_dialect_have_the_names_of_aten() -> None:
    program = torch.export.export(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), (X,), strict=True)
    calls = [n for n in to_edge(program).exported_program().graph.nodes if n.op == "call_function"]
    assert [target_name(node.target) for node in calls] == ["aten.convolution.default", "aten.relu.default"]


def test_operator_without_its_overload_has_its_name() -> None:
    assert target_name(torch.ops.aten.relu) == "aten.relu"


@pytest.mark.parametrize(
    "target", [torch.ops.aten.relu.default, torch.ops.aten.sum.dim_IntList, operator.getitem, torch.sym_min]
)
def test_names_lead_back_to_the_operators(target: object) -> None:
    assert find_operator(target_name(target)) is target


@pytest.mark.parametrize(
    ("value", "arg"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (0.5, 0.5),
        ("floor", "floor"),
        (float("inf"), Atom("float", "inf")),
        (float("-inf"), Atom("float", "-inf")),
        (float("nan"), Atom("float", "nan")),
        (1 + 2j, Atom("complex", "(1+2j)")),
        (torch.float16, Atom("dtype", "float16")),
        (torch.strided, Atom("layout", "strided")),
        (torch.channels_last, Atom("memory_format", "channels_last")),
        (torch.device("cpu"), Atom("device", "cpu")),
        ([1, [2.5, None], "x"], Seq((1, Seq((2.5, None)), Ref("x")))),
        ((), Seq(())),
        (slice(1, None, 2), Slice(1, None, 2)),
        ({"a": 1}, Atom("opaque", "immutable_dict")),
        (b"bytes", Atom("opaque", "bytes")),
    ],
)
def test_arguments(store: Store, value: object, arg: Arg) -> None:
    node = by_name(store.snapshot(called(torch.ops.aten.relu.default, "x", value, key=value)))["node"]
    assert node.args == (Ref("x"), arg)
    if not isinstance(value, list):
        assert node.kwargs == {"key": arg}


def test_outputs_have_shapes_and_dtypes(store: Store) -> None:
    nodes = by_name(store.snapshot(exported(lambda x: (torch.topk(x, 3), x.sum() > 0), X)))
    topk = nodes["topk"]
    assert topk.outputs == (TensorSpec((2, 3, 8, 3), "float32"), TensorSpec((2, 3, 8, 3), "int64"))
    assert topk.multiple
    assert nodes["gt"].outputs == (TensorSpec((), "bool"),)
    assert not nodes["gt"].multiple


def test_one_output_in_a_list_is_told_from_one_output(store: Store) -> None:
    nodes = by_name(store.snapshot(exported(lambda x: torch.split(x, 3, 1)[0] + 1, X)))
    assert (nodes["split"].multiple, len(nodes["split"].outputs)) == (True, 1)


def test_dimension_that_is_not_fixed_is_its_expression(store: Store) -> None:
    batch = torch.export.Dim("batch", min=2, max=9)
    module = Calls(lambda x: torch.cat((x, x)))
    program = torch.export.export(module, (X,), dynamic_shapes=(({0: batch},),), strict=True)
    nodes = by_name(store.snapshot(program))
    (spec,) = nodes["cat"].outputs
    assert spec is not None
    assert spec.shape[1:] == (3, 8, 8)
    assert isinstance(spec.shape[0], str)
    assert spec.shape[0].startswith("2*")


@pytest.mark.parametrize(
    ("attrs", "encoding"),
    [
        (None, None),
        ({}, None),
        (
            {"scale": 0.5, "zero_point": 3, "quant_min": 0, "quant_max": 255, "dtype": torch.uint8},
            QuantParams(scales=(0.5,), zero_points=(3,), qmin=0, qmax=255, dtype="uint8"),
        ),
        (
            {"scale": torch.tensor(0.5), "quant_min": -7, "quant_max": 7, "dtype": torch.int8},
            QuantParams(scales=(0.5,), zero_points=(0,), qmin=-7, qmax=7, dtype="int8"),
        ),
        (
            {
                "scales": torch.tensor([0.5, 0.25]),
                "zero_points": torch.tensor([0, 1]),
                "axis": 1,
                "quant_min": -128,
                "quant_max": 127,
                "dtype": torch.int8,
            },
            QuantParams(
                scheme="per_channel",
                scales=(0.5, 0.25),
                zero_points=(0, 1),
                qmin=-128,
                qmax=127,
                dtype="int8",
                axis=1,
            ),
        ),
        (
            {
                "scale": torch.tensor([[0.5, 0.25]]),
                "zero_point": torch.tensor([[0, 1]]),
                "block_size": (1, 32),
                "quant_min": -8,
                "quant_max": 7,
                "dtype": torch.int8,
            },
            QuantParams(
                scheme="per_block",
                scales=(0.5, 0.25),
                zero_points=(0, 1),
                qmin=-8,
                qmax=7,
                dtype="int8",
                block_size=(1, 32),
            ),
        ),
    ],
)
def test_encodings(attrs: dict[str, Any] | None, encoding: QuantParams | None) -> None:
    assert encoding_from_attrs(attrs) == encoding


def test_meta_of_the_qnn_backend(store: Store) -> None:
    attrs = {"scale": 0.5, "zero_point": 3, "quant_min": 0, "quant_max": 255, "dtype": torch.uint8}
    encoding = QuantParams(scales=(0.5,), zero_points=(3,), qmin=0, qmax=255, dtype="uint8")
    node = snapshot_of_meta(
        store,
        **{
            constants.QCOM_QUANT_ATTRS: attrs,
            constants.QCOM_REQUANTIZE: {"user": attrs, "other": {}},
            constants.QCOM_AXIS_ORDER: [0, 2, 3, 1],
            constants.QCOM_INSERTED_PERMUTE: True,
            constants.QCOM_QUANTIZED_IO: torch.uint8,
            constants.QCOM_TENSOR_NAME: {0: "node@0", 2: "node@2"},
            "debug_handle": 7,
        },
    )
    assert (node.encoding, node.requantize) == (encoding, {"user": encoding})
    assert (node.axis_order, node.layout_permute, node.quantized_io) == ((0, 2, 3, 1), True, True)
    assert (node.tensors, node.handle) == (("node@0", "", "node@2"), (7,))


@pytest.mark.parametrize(("handle", "expected"), [(0, (0,)), ((3, 4), (3, 4)), ([5], (5,)), (None, ())])
def test_debug_handles(store: Store, handle: object, expected: tuple[int, ...]) -> None:
    assert snapshot_of_meta(store, debug_handle=handle).handle == expected


def test_layout_is_stored_if_asked_for_or_if_any_permute_says_so(store: Store) -> None:
    plain = called(torch.ops.aten.relu.default, "x")
    lineage = Lineage()
    assert not graph_from_module(plain, store.weights, lineage).stored_layout
    assert graph_from_module(plain, store.weights, lineage, stored_layout=True).stored_layout
    next(iter(plain.graph.nodes)).meta[constants.QCOM_INSERTED_PERMUTE] = True
    assert graph_from_module(plain, store.weights, lineage).stored_layout


def test_results_are_flat_and_may_be_no_nodes(store: Store) -> None:
    graph = store.snapshot(exported(lambda x: {"b": x + 1, "a": [x, None, 2]}, X))
    (x,) = (node.name for node in graph.nodes if node.op == "placeholder")
    assert graph.outputs == tuple(Output(value=value) for value in (Ref("add"), Ref(x), None, 2))


def test_input_that_is_written_is_a_mutation_of_it(store: Store) -> None:
    graph = store.snapshot(exported(lambda x: x.add_(1) * 2, X).run_decompositions({}))
    (x,) = (node.name for node in graph.nodes if node.op == "placeholder")
    assert [(o.value, o.role, o.target) for o in graph.outputs] == [
        (Ref("add"), "mutation", x),
        (Ref("mul"), "output", ""),
    ]

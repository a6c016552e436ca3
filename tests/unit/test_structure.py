"""One change at a time: what the structure digest of a graph sees, and what it does not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from qnndbg.model.graph import (
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
    TensorSpec,
)
from qnndbg.recording.schema import digest, encode, graph_digest, structure_digest

F32 = TensorSpec((2, 3), "float32")
FINE = QuantParams(scales=(0.1,), zero_points=(3,), qmin=0, qmax=255, dtype="uint8")
WEIGHT = TensorRef("0" * 32, "int8", (3,))
GRAPH = Graph(
    nodes=(
        Node(name="w", op="get_attr", target="fc.weight", constant=WEIGHT),
        Node(name="x", op="placeholder", target="x", role="input", outputs=(F32,)),
        Node(
            name="mul",
            op="call_function",
            target="aten.mul.Tensor",
            args=(Ref("x"), Seq((Ref("x"), Ref("w"), 1)), Slice(0, Ref("x"), None)),
            kwargs={"dtype": Atom("dtype", "float32"), "by": Ref("x")},
            outputs=(F32, None),
            multiple=True,
            encoding=FINE,
            requantize={"out": FINE, "x": FINE},
            axis_order=(0, 2, 3, 1),
            layout_permute=True,
            quantized_io=True,
            handle=(7,),
            tensors=("mul@0",),
            origin=Origin(module_path="fc", source="net.py:7", created_by="Pass"),
        ),
        Node(name="out", op="output", target="output", args=(Seq((Ref("mul"),)),)),
    ),
    outputs=(Output(value=Ref("mul")), Output(value=Ref("x"), role="mutation", target="w")),
)


def changed(index: int = 2, **fields: Any) -> Graph:
    nodes = list(GRAPH.nodes)
    nodes[index] = replace(nodes[index], **fields)
    return replace(GRAPH, nodes=tuple(nodes))


SEEN = {
    "operator": changed(target="aten.add.Tensor"),
    "overload": changed(target="aten.mul.Scalar"),
    "kind of node": changed(op="call_method"),
    "edge": changed(args=(Ref("w"), *GRAPH.nodes[2].args[1:])),
    "edge in a list": changed(args=(Ref("x"), Seq((Ref("w"), Ref("w"), 1)), Slice(0, Ref("x"), None))),
    "edge in a slice": changed(args=(*GRAPH.nodes[2].args[:2], Slice(0, Ref("w"), None))),
    "edge of a keyword": changed(kwargs=GRAPH.nodes[2].kwargs | {"by": Ref("w")}),
    "constant in place of an edge": changed(args=(1, *GRAPH.nodes[2].args[1:])),
    "number": changed(args=(Ref("x"), Seq((Ref("x"), Ref("w"), 2)), Slice(0, Ref("x"), None))),
    "kind of number": changed(args=(Ref("x"), Seq((Ref("x"), Ref("w"), 1.0)), Slice(0, Ref("x"), None))),
    "nesting": changed(args=(Ref("x"), Seq((Seq((Ref("x"), Ref("w"), 1)),)), Slice(0, Ref("x"), None))),
    "slice": changed(args=(*GRAPH.nodes[2].args[:2], Slice(1, Ref("x"), None))),
    "missing argument": changed(args=GRAPH.nodes[2].args[:2]),
    "dtype": changed(kwargs=GRAPH.nodes[2].kwargs | {"dtype": Atom("dtype", "float16")}),
    "name of a keyword": changed(kwargs={"type": Atom("dtype", "float32"), "by": Ref("x")}),
    "dtype of an output": changed(outputs=(TensorSpec((2, 3), "float16"), None)),
    "shape of an output": changed(outputs=(TensorSpec((3, 2), "float32"), None)),
    "number of outputs": changed(outputs=(F32,)),
    "one output or a list": changed(multiple=False),
    "scale": changed(encoding=replace(FINE, scales=(0.1000001,))),
    "zero point": changed(encoding=replace(FINE, zero_points=(4,))),
    "range": changed(encoding=replace(FINE, qmax=254)),
    "storage dtype": changed(encoding=replace(FINE, dtype="int32")),
    "missing encoding": changed(encoding=None),
    "scale of a requantisation": changed(requantize={"out": replace(FINE, scales=(0.2,)), "x": FINE}),
    "user of a requantisation": changed(requantize={"out": FINE, "w": FINE}),
    "missing requantisation": changed(requantize={"out": FINE}),
    "axis order": changed(axis_order=(0, 1, 2, 3)),
    "layout permute": changed(layout_permute=False),
    "integers at the border": changed(quantized_io=False),
    "bytes of a constant": changed(0, constant=replace(WEIGHT, digest="1" * 32)),
    "dtype of a constant": changed(0, constant=replace(WEIGHT, dtype="uint8")),
    "missing constant": changed(0, constant=None),
    "role": changed(1, role="state"),
    "stored layout": replace(GRAPH, stored_layout=True),
    "result": replace(GRAPH, outputs=(Output(value=Ref("w")), GRAPH.outputs[1])),
    "order of results": replace(GRAPH, outputs=GRAPH.outputs[::-1]),
    "role of a result": replace(GRAPH, outputs=(GRAPH.outputs[0], Output(value=Ref("x")))),
    "order of nodes": replace(GRAPH, nodes=(GRAPH.nodes[1], GRAPH.nodes[0], *GRAPH.nodes[2:])),
}
UNSEEN = {
    "debug handle": changed(handle=()),
    "QNN tensor names": changed(tensors=()),
    "origin": changed(origin=Origin()),
    "path of an attribute": changed(0, target="_frozen_param0"),
    "target of a placeholder": changed(1, target="inputs_0"),
    "order of keywords": changed(kwargs=dict(reversed(GRAPH.nodes[2].kwargs.items()))),
}


@pytest.mark.parametrize("other", SEEN.values(), ids=SEEN)
def test_what_a_graph_computes_is_structure(other: Graph) -> None:
    assert structure_digest(other) != structure_digest(GRAPH)


@pytest.mark.parametrize("other", UNSEEN.values(), ids=UNSEEN)
def test_what_it_is_called_and_where_it_comes_from_is_not(other: Graph) -> None:
    assert structure_digest(other) == structure_digest(GRAPH)


@pytest.mark.parametrize("other", [*SEEN.values(), *list(UNSEEN.values())[:-1]])
def test_everything_is_part_of_the_key_under_which_a_graph_is_stored(other: Graph) -> None:
    assert graph_digest(other) != graph_digest(GRAPH)
    assert graph_digest(GRAPH) == digest(encode(GRAPH))


def test_state_that_is_written_is_structure() -> None:
    mutation = replace(GRAPH.outputs[1], target="x")
    other = replace(GRAPH, outputs=(GRAPH.outputs[0], mutation))
    assert structure_digest(other) != structure_digest(GRAPH)


def test_list_of_strings_is_not_mistaken_for_a_reference() -> None:
    left, right = (changed(args=(Seq(("ref", name)),)) for name in "ab")
    assert structure_digest(left) != structure_digest(right)

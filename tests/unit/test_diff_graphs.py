"""Two graphs: what is the same under other names, and what exactly is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qnndbg.analyze.diff.graphs import graph_diff
from qnndbg.analyze.diff.recordings import diff_recordings
from qnndbg.analyze.diff.sides import Sides
from qnndbg.model.diff import Change, GraphDiff
from qnndbg.model.graph import Atom, Graph, Node, Origin, Ref, Seq, TensorRef, TensorSpec
from tests.unit.lowerings import call, edited, encoding, held, lowering, net, plain, renamed


def compared(folder: Path, a: Graph, b: Graph) -> GraphDiff | None:
    """How two exported graphs differ."""
    left, right = (lowering(folder / name, [("export", "", graph)]) for name, graph in (("a", a), ("b", b)))
    return graph_diff(
        Sides(left, right), ("export", "forward", None), left.passes[0].after, right.passes[0].after
    )


def changes(diff: GraphDiff | None) -> dict[str, tuple[Change, ...]]:
    """Name of each changed node of B to its changes; nothing else may differ."""
    assert diff is not None
    assert (diff.only_a, diff.only_b) == ((), ())
    return {node.b.name: node.changes for node in diff.changed}


def test_names_handles_tensors_and_provenance_are_no_difference(tmp_path: Path) -> None:
    graph = plain()
    other = renamed(graph, {node.name: f"other_{i}" for i, node in enumerate(graph.nodes)})
    moved = tuple(
        replace(node, handle=(7,), tensors=("t@0",), origin=Origin(source="net.py:99", ancestors=("q",)))
        for node in other.nodes
    )
    assert compared(tmp_path, graph, replace(other, nodes=moved)) is None


def traced_anew(graph: Graph) -> Graph:
    """The end of the graph has the value that it hands on, as it has behind a pass that traces anew."""
    return edited(graph, "output", outputs=(TensorSpec((1, 4), "float32"),), multiple=True)


def test_what_the_end_of_a_graph_is_said_to_compute_is_no_difference(tmp_path: Path) -> None:
    assert compared(tmp_path, plain(), traced_anew(plain())) is None
    diff = compared(tmp_path / "more", plain(), traced_anew(edited(plain(), "relu", encoding=encoding(0.7))))
    assert list(changes(diff)) == ["relu"]


def test_a_pass_that_changes_the_end_only_changes_nothing(tmp_path: Path) -> None:
    left, right = (
        lowering(
            tmp_path / name,
            [
                ("edge", "", plain()),
                ("edge", first, traced_anew(plain()), {"changed": True}),
                ("edge", "Shared", traced_anew(plain()), {"changed": name == "b"}),
            ],
        )
        for name, first in (("a", "OnlyA"), ("b", "OnlyB"))
    )
    diff = diff_recordings(left, right)
    assert diff.first_parting is None
    assert [run.changed for one in diff.passes for run in (one.a, one.b) if run] == [False, False]
    assert diff.graphs == ()


def test_order_of_independent_nodes_is_no_difference(tmp_path: Path) -> None:
    left, right = call("left", "relu", "x"), call("right", "gelu", "x")
    both = call("both", "add", "left", "right")
    assert compared(tmp_path, net(left, right, both), net(right, left, both)) is None


def test_equal_values_read_from_one_node_or_from_two_differ(tmp_path: Path) -> None:
    two = net(call("a", "relu", "x"), call("b", "relu", "x"), call("sum", "add", "a", "b"))
    one = net(call("a", "relu", "x"), call("b", "relu", "x"), call("sum", "add", "a", "a"))
    diff = compared(tmp_path, two, one)
    assert changes(diff) == {"sum": (Change(what="inputs", a="b", b="a"),)}


@pytest.mark.parametrize(
    ("node", "fields", "expected"),
    [
        (
            "relu",
            {"target": "aten.gelu.default"},
            Change(what="op", a="aten.relu.default", b="aten.gelu.default"),
        ),
        ("add", {"args": (Ref("x"), Ref("relu"))}, Change(what="order of inputs", a="relu, x", b="x, relu")),
        ("relu", {"encoding": encoding(0.2)}, Change(what="scale", a=0.1, b=0.2)),
        ("relu", {"encoding": encoding(zero_point=4)}, Change(what="zero point", a=3, b=4)),
        ("relu", {"encoding": None}, Change(what="encoding", a="uint8 per_tensor 0.1 3", b=None)),
        (
            "relu",
            {"outputs": (TensorSpec((1, 4), "float16"),)},
            Change(what="dtype", a="float32", b="float16"),
        ),
        ("relu", {"outputs": (TensorSpec((4,), "float32"),)}, Change(what="shape", a="[1, 4]", b="[4]")),
        ("relu", {"axis_order": (0, 2, 3, 1)}, Change(what="axis order", a=None, b="[0, 2, 3, 1]")),
        (
            "w",
            {"constant": TensorRef("f" * 32, "float32", (4, 4))},
            Change(what="constant", a=f"{1:032x}", b="f" * 32),
        ),
        ("relu", {"args": (Ref("linear"), 1)}, Change(what="args[1]", a=None, b=1)),
        ("relu", {"kwargs": {"dim": Seq((1, 2))}}, Change(what="dim", a=None, b="[1, 2]")),
    ],
)
def test_one_change_is_found_at_its_node_and_nowhere_else(
    tmp_path: Path, node: str, fields: dict[str, Any], expected: Change
) -> None:
    other = renamed(edited(plain(), node, **fields), {"linear": "aten_linear", "x": "image"})
    names = {"relu, x": "relu, x", "x, relu": "image, relu"}
    if isinstance(expected.b, str):
        expected = replace(expected, b=names.get(expected.b, expected.b))
    assert changes(compared(tmp_path, plain(), other)) == {node: (expected,)}


@pytest.mark.parametrize(
    ("a", "b"), [(1, 2), (1, True), (1, 1.0), (0.0, -0.0), (None, 0), (Atom("float", "inf"), 1.0), ("a", "b")]
)
def test_literals_that_python_may_hold_for_equal_are_told_apart(tmp_path: Path, a: Any, b: Any) -> None:
    def with_literal(value: Any) -> Graph:
        return net(replace(call("mul", "mul", "x"), args=(Ref("x"), value)))

    (found,) = changes(compared(tmp_path, with_literal(a), with_literal(b)))["mul"]
    assert found.what == "args[1]"
    assert compared(tmp_path / "same", with_literal(a), with_literal(a)) is None


def test_per_channel_scales_count_and_show_the_one_that_changed_most(tmp_path: Path) -> None:
    def with_scales(*scales: float) -> Graph:
        params = replace(encoding(), scheme="per_channel", scales=scales, zero_points=(0,) * 3, axis=0)
        return edited(plain(), "relu", encoding=params)

    diff = compared(tmp_path, with_scales(1.0, 2.0, 3.0), with_scales(1.0, 2.5, 6.0))
    assert changes(diff) == {"relu": (Change(what="scale", a=3.0, b=6.0, count=2),)}


def test_arguments_of_a_quantise_op_are_named(tmp_path: Path) -> None:
    target = "quantized_decomposed.quantize_per_tensor.default"

    def quantised(scale: float, zero_point: int) -> Graph:
        args = (Ref("x"), scale, zero_point, 0, 255, Atom("dtype", "uint8"))
        return net(replace(call("q", "q", "x"), target=target, args=args))

    found = changes(compared(tmp_path, quantised(0.5, 3), quantised(0.25, 4)))
    assert found == {"q": (Change(what="scale", a=0.5, b=0.25), Change(what="zero point", a=3, b=4))}


def test_inserted_node_is_new_and_its_reader_reads_through_it(tmp_path: Path) -> None:
    permuted = net(
        held("w", 1),
        call("linear", "linear", "x", "w", module="first"),
        call("permute", "permute_copy", "linear"),
        call("relu", "relu", "permute", encoding=encoding()),
        call("add", "add", "relu", "x"),
    )
    diff = compared(tmp_path, plain(), permuted)
    assert diff is not None
    assert [place.name for place in diff.only_b] == ["permute"]
    assert diff.only_a == ()
    assert {n.b.name: [c.what for c in n.changes] for n in diff.changed} == {"relu": ["through"]}


def block(number: int, source: str, *, weight: int | None, module: bool = True) -> list[Node]:
    """Linear, relu and residual add, named as torch.export counts them."""
    path = f"layers.{number}" if module else ""
    return [
        *([held(f"w{number}", weight)] if weight is not None else []),
        call(f"linear_{number}", "linear", source, f"w{number}", module=path, ancestor=f"linear_{number}"),
        call(f"relu_{number}", "relu", f"linear_{number}", module=path, ancestor=f"relu_{number}"),
        call(f"add_{number}", "add", f"relu_{number}", source, module=path, ancestor=f"add_{number}"),
    ]


def blocks(weights: list[int], *, module: bool = True) -> Graph:
    nodes: list[Node] = []
    source = "x"
    for number, weight in enumerate(weights):
        nodes += block(number, source, weight=weight, module=module)
        source = nodes[-1].name
    return net(*nodes)


def test_block_put_into_repeated_ones_is_told_by_its_weights_though_all_names_shift(tmp_path: Path) -> None:
    diff = compared(tmp_path, blocks([1, 2, 3, 4]), blocks([1, 2, 9, 3, 4]))
    assert diff is not None
    assert [place.name for place in diff.only_b] == ["w2", "linear_2", "relu_2", "add_2"]
    assert diff.only_a == ()
    pairs = {node.a.name: node.b.name for node in diff.changed}
    assert pairs == {"linear_2": "linear_3", "add_2": "add_3"}  # what reads the block that was put in
    assert all(change.what == "through" for node in diff.changed for change in node.changes)


def test_identical_blocks_differ_in_number_only(tmp_path: Path) -> None:
    shared = held("w", 1)

    def deep(count: int) -> Graph:
        nodes = [shared]
        source = "x"
        for number in range(count):
            nodes.append(call(f"linear_{number}", "linear", source, "w"))
            nodes.append(call(f"relu_{number}", "relu", f"linear_{number}"))
            source = f"relu_{number}"
        return net(*nodes)

    diff = compared(tmp_path, deep(6), deep(8))
    assert diff is not None
    assert (len(diff.only_a), len(diff.only_b)) == (0, 4)
    assert (
        sorted(place.op for place in diff.only_b) == ["aten.linear.default"] * 2 + ["aten.relu.default"] * 2
    )


def test_all_weights_and_encodings_may_change_and_every_node_is_still_found(tmp_path: Path) -> None:
    a, b = blocks([1, 2, 3, 4], module=False), blocks([11, 12, 13, 14], module=False)
    b = renamed(b, {node.name: f"n{i}" for i, node in enumerate(b.nodes)})
    diff = compared(tmp_path, a, b)
    assert diff is not None
    assert {node.a.name: [c.what for c in node.changes] for node in diff.changed} == {
        f"w{i}": ["constant"] for i in range(4)
    }
    assert (diff.only_a, diff.only_b) == ((), ())


def test_quantised_twin_of_a_float_graph_is_paired_op_by_op(tmp_path: Path) -> None:
    q, dq = (f"quantized_decomposed.{word}_per_tensor.default" for word in ("quantize", "dequantize"))
    nodes: list[Node] = []
    for node in blocks([1, 2, 3], module=False).nodes[1:-1]:
        nodes.append(renamed(net(node), {f"add_{i}": f"dq_add_{i}" for i in range(3)}).nodes[1])
        if node.name.startswith("add"):
            nodes[-1] = replace(nodes[-1], name=node.name)
            nodes.append(replace(call(f"q_{node.name}", "q", node.name, 0.1, 0), target=q))
            nodes.append(replace(call(f"dq_{node.name}", "q", f"q_{node.name}", 0.1, 0), target=dq))
    diff = compared(tmp_path, blocks([1, 2, 3], module=False), net(*nodes))
    assert diff is not None
    assert diff.only_a == ()
    assert {place.name for place in diff.only_b} == {f"{d}q_add_{i}" for i in range(3) for d in ("", "d")}
    assert all(node.a.name == node.b.name for node in diff.changed)


def test_requantised_reader_is_part_of_a_graph(tmp_path: Path) -> None:
    def requantised(scale: float) -> Graph:
        return edited(plain(), "relu", requantize={"add": encoding(scale)})

    assert compared(tmp_path / "same", requantised(0.5), requantised(0.5)) is None
    found = changes(compared(tmp_path / "other", requantised(0.5), requantised(0.25)))
    assert found == {"relu": (Change(what="requantised scale", a=0.5, b=0.25),)}


def test_state_that_is_written_is_part_of_a_graph(tmp_path: Path) -> None:
    def writing(role: Any) -> Graph:
        graph = net(replace(held("s"), role="state"), call("add", "add", "x", "s"))
        (result,) = graph.outputs
        return replace(
            graph, outputs=(result, replace(result, role=role, target="s" if role == "mutation" else ""))
        )

    assert compared(tmp_path / "same", writing("mutation"), renamed(writing("mutation"), {"s": "t"})) is None
    assert compared(tmp_path / "other", writing("mutation"), writing("output")) is not None


def test_outputs_have_their_order(tmp_path: Path) -> None:
    nodes = (call("a", "relu", "x"), call("b", "gelu", "x"))
    diff = compared(tmp_path, net(*nodes, results=["a", "b"]), net(*nodes, results=["b", "a"]))
    assert changes(diff) == {"output": (Change(what="order of inputs", a="a, b", b="b, a"),)}

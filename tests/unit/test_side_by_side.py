"""Two snapshots side by side, built by hand."""

from __future__ import annotations

from msgspec.structs import replace

from qnndbg.analyze.side_by_side import Row, side_by_side
from qnndbg.model.graph import Graph, Node, Origin, Ref
from tests.unit.recordings import HALF, node


def graph(*nodes: Node) -> Graph:
    return Graph(nodes=nodes, outputs=())


A, B, C = node("a"), node("b", args=(Ref("a"), 1)), node("c", args=(Ref("b"),))


def test_equal_graphs_have_equal_rows() -> None:
    rows = side_by_side(graph(A, B, C), graph(A, B, C))
    assert rows == (Row(A, A), Row(B, B), Row(C, C))
    assert all(row.same for row in rows)


def test_what_was_put_in_and_what_is_gone_stand_alone() -> None:
    new = node("new", "aten.clamp.default", args=(Ref("a"),))
    assert side_by_side(graph(A, B, C), graph(A, new, C)) == (
        Row(A, A),
        Row(None, new),
        Row(B, None),
        Row(C, C),
    )


def test_the_fields_that_changed_are_named() -> None:
    changed = replace(B, args=(Ref("a"), 2), encoding=HALF, axis_order=(0, 2, 1))
    rows = side_by_side(graph(A, B, C), graph(A, changed, C))
    assert rows[1] == Row(B, changed, ("args[1]", "encoding", "axis_order"))


def test_handles_and_origins_are_no_change() -> None:
    moved = replace(B, handle=(7,), origin=Origin(source="net.py:1"), tensors=("b@0",))
    assert side_by_side(graph(B), graph(moved))[0].same


def test_a_renamed_node_is_known_by_its_op_and_ancestry() -> None:
    origin = Origin(ancestors=("relu_1",))
    old, new = node("relu_1", origin=origin), node("aten_relu_1", origin=origin)
    other = node("x", "aten.add.Tensor", origin=origin)
    rows = side_by_side(graph(A, old, C), graph(A, other, new, C))
    assert rows == (Row(A, A), Row(None, other), Row(old, new), Row(C, C))

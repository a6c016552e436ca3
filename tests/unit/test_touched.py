"""What a pass touched, told by name from the graphs before and after it."""

from __future__ import annotations

from msgspec.structs import replace

from qnndbg.analyze.touched import Touched, touched
from qnndbg.model.graph import Graph, Node, Origin, Ref
from tests.unit.recordings import HALF, node

X = Node(name="x", op="placeholder", role="input")
RELU, ADD = node("relu", args=(Ref("x"),)), node("add", "aten.add.Tensor", args=(Ref("relu"), 1))


def graph(*nodes: Node) -> Graph:
    return Graph(nodes=(X, *nodes), outputs=())


def test_equal_graphs_have_nothing_touched() -> None:
    found = touched(graph(RELU, ADD), graph(RELU, ADD))
    assert found == Touched((), (), ())
    assert found.first is None


def test_made_changed_and_gone() -> None:
    made = node("view", args=(Ref("relu"),))
    changed = replace(ADD, args=(Ref("view"), 1))
    found = touched(graph(RELU, ADD, node("old")), graph(RELU, made, changed))
    assert found == Touched((made,), (changed,), ("old",))
    assert found.first == changed


def test_encodings_and_targets_count_and_where_a_node_comes_from_does_not() -> None:
    coded, other = replace(RELU, encoding=HALF), replace(RELU, target="aten.neg.default")
    for changed in (coded, other):
        assert touched(graph(RELU), graph(changed)).changed == (changed,)
    moved = replace(RELU, origin=Origin(source="net.py:1", created_by="Pass"), handle=(7,))
    assert touched(graph(RELU), graph(moved)) == ((), (), ())


def test_an_op_is_named_before_a_constant() -> None:
    weight = Node(name="w", op="get_attr", target="w")
    assert touched(graph(RELU), graph(RELU, weight)).first == weight
    assert touched(graph(RELU), graph(RELU, weight, ADD)).first == ADD

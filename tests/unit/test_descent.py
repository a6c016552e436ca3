"""Values are followed through graphs whose names were numbered anew."""

from __future__ import annotations

from qnndbg.analyze.descent import Staged
from qnndbg.model.graph import Graph, Node, Origin, TensorSpec

SPEC = TensorSpec((3,), "float32")


def graph(*nodes: Node) -> Graph:
    return Graph(nodes=nodes, outputs=())


def op(name: str, target: str, *ancestors: str, by: str = "") -> Node:
    origin = Origin(ancestors=ancestors, created_by=by)
    target = f"aten.{target}.default"
    return Node(name=name, op="call_function", target=target, outputs=(SPEC,), origin=origin)


EXPORTED = graph(op("view", "view", "view"), op("view_1", "view", "view_1"), op("silu", "silu", "silu"))
EDGE = graph(
    op("view_copy", "view_copy", "view"),
    op("view_copy_1", "view_copy", "view_1"),
    op("sigmoid", "sigmoid", "silu"),
    op("mul", "mul", "silu"),
)
LAST = graph(
    op("view_copy", "view_copy", by="KeepDim"),
    op("view_copy_1", "view_copy", "view"),
    op("view_copy_2", "view_copy", "view_1"),
    op("sigmoid_1", "sigmoid", "silu"),
    op("mul", "mul", by="Scale"),
    op("mul_1", "mul", "silu"),
)


def twin(name: str, stage: str, there: Graph) -> str:
    last = Staged("preprocess", LAST, EXPORTED)
    found = Staged(stage, there, EXPORTED).twin(last.named[name], last)
    return found.name if found is not None else ""


def test_a_value_is_found_by_what_it_descends_from() -> None:
    assert twin("view_copy_1", "edge", EDGE) == "view_copy"
    assert twin("view_copy_2", "edge", EDGE) == "view_copy_1"
    assert twin("view_copy_2", "export", EXPORTED) == "view_1"


def test_what_a_pass_made_has_no_twin_of_its_name() -> None:
    assert twin("view_copy", "edge", EDGE) == ""
    assert twin("mul", "edge", EDGE) == ""


def test_of_what_an_op_became_it_is_that_of_the_same_op_and_else_the_last() -> None:
    assert twin("sigmoid_1", "edge", EDGE) == "sigmoid"
    assert twin("mul_1", "edge", EDGE) == "mul"
    found = Staged("edge", EDGE, EXPORTED).twin(EXPORTED.nodes[2], Staged("export", EXPORTED, EXPORTED))
    assert found is not None
    assert found.name == "mul"


def test_a_part_of_an_op_is_not_another_part_of_it() -> None:
    others = graph(op("neg", "neg", "silu"), op("exp", "exp", "silu"))
    assert twin("sigmoid_1", "edge", others) == ""
    assert twin("mul_1", "edge", others) == "exp"
    assert twin("sigmoid_1", "export", EXPORTED) == "silu"


def test_an_input_keeps_its_name() -> None:
    x = Node(name="x", op="placeholder", role="input", outputs=(SPEC,))
    early, late = graph(x), graph(op("view", "view", "view"), x)
    found = Staged("edge", late, graph(x)).twin(x, Staged("quantized", early, graph(x)))
    assert found == x


def test_a_part_of_an_op_is_told_from_what_computes_all_of_it() -> None:
    last = Staged("preprocess", LAST, EXPORTED)
    assert [last.is_part(last.named[name]) for name in ("sigmoid_1", "mul_1", "view_copy_1")] == [
        True, False, False,
    ]  # fmt: skip


def test_before_the_export_names_are_others() -> None:
    quantised = graph(op("view_7", "view"), op("view_2", "view"), op("silu", "silu"))
    assert twin("view_copy_2", "quantized", quantised) == "view_2"


def test_without_provenance_a_name_counts() -> None:
    plain = graph(op("view_copy_2", "view_copy"), op("view_copy", "view_copy"))
    here = Staged("transform", plain, None)
    assert Staged("edge", plain, None).twin(plain.nodes[0], here) == plain.nodes[0]

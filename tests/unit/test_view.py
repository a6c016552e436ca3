"""What is drawn of graphs, small and large."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec.structs import replace

from qnndbg.analyze.delegates import DELEGATE
from qnndbg.analyze.program_view import program_view
from qnndbg.analyze.view import MODULES, NEAR, Box, View, heat, views
from qnndbg.model.graph import Graph, Node, Origin, Ref, Seq
from qnndbg.model.result import LayerResult
from tests.unit.evidence import error, layer
from tests.unit.recordings import node

X = Node(name="x", op="placeholder", target="x", role="input")


def measured(excess: float) -> LayerResult:
    return layer("relu", local=error(30.0, rms=excess), accumulated=None, floor=1.0)


def chain(count: int, per_module: int = 10) -> Graph:
    nodes = [
        node(
            f"n{i}",
            args=(Ref(f"n{i - 1}" if i else "x"),),
            tensors=(f"n{i}@0",),
            origin=Origin(module_path=f"net.{i // per_module}"),
        )
        for i in range(count)
    ]
    return Graph(nodes=(X, *nodes), outputs=())


def drawn(graph: Graph, worst: dict[str, float] | None = None) -> tuple[View, ...]:
    bad = worst or {}
    layers = {
        name: (number, measured(bad.get(name, 0.5)))
        for number, name in enumerate(name for made in graph.nodes for name in made.tensors)
    }
    return views(graph, layers, "Graph", sorted(bad, key=lambda name: -bad[name]))


def by_title(view: View) -> dict[str, Box]:
    return {box.title: box for box in view.boxes}


def test_a_small_graph_is_drawn_whole() -> None:
    (view,) = drawn(chain(5))
    assert [box.key for box in view.boxes] == ["x", "n0", "n1", "n2", "n3", "n4"]
    assert view.edges == tuple(pairwise(box.key for box in view.boxes))


def test_parameters_are_left_out_and_getitem_is_seen_through() -> None:
    weight = Node(name="w", op="placeholder", role="parameter")
    split = node("split", "aten.split.default", args=(Ref("x"), Ref("w")), multiple=True)
    item = node("item", "operator.getitem", args=(Ref("split"), 1))
    cat = node("cat", "aten.cat.default", args=(Seq((Ref("item"), Ref("x"))),))
    (view,) = drawn(Graph(nodes=(X, weight, split, item, cat), outputs=()))
    assert [box.key for box in view.boxes] == ["x", "split", "cat"]
    assert view.edges == (("x", "split"), ("split", "cat"), ("x", "cat"))


def test_a_box_has_the_worst_of_its_tensors() -> None:
    both = node("split", args=(Ref("x"),), tensors=("a", "b"))
    (view,) = drawn(Graph(nodes=(X, both), outputs=()), {"b": 7.0})
    assert (view.boxes[1].layers, view.boxes[1].excess) == ((0, 1), 7.0)


def test_a_large_graph_is_a_map_of_its_modules_and_the_surroundings_of_its_worst() -> None:
    modules, around = drawn(chain(300), {"n157@0": 50.0})
    assert len(modules.boxes) == 31
    assert by_title(modules)["net.15"].excess == 50.0
    assert len(by_title(modules)["net.15"].layers) == 10
    kept = [box for box in around.boxes if box.kind != "cut"]
    assert len(kept) == NEAR
    assert {"n157", "n150", "n165"} <= {box.key for box in kept}
    assert [box.title for box in around.boxes if box.kind == "cut"] == ["1 more", "1 more"]


def test_of_too_many_modules_the_worst_stand_apart() -> None:
    (modules, _) = drawn(chain(3000), {"n1571@0": 50.0})
    assert len(modules.boxes) <= MODULES
    assert by_title(modules)["net.157"].excess == 50.0
    assert sum(len(box.layers) for box in modules.boxes) == 3000
    assert any(" … " in title for title in by_title(modules))


def test_a_large_graph_without_modules_is_drawn_all_the_same() -> None:
    graph = chain(300)
    bare = Graph(nodes=tuple(replace(made, origin=Origin()) for made in graph.nodes), outputs=())
    modules, around = drawn(bare, {"n9@0": 9.0})
    assert [box.title for box in modules.boxes] == ["(no module)"]
    assert around.boxes


@pytest.mark.parametrize(
    ("excess", "level"), [(None, None), (0.0, 0), (1.0, 0), (1.1, 1), (3.1, 2), (100.0, 3), (float("inf"), 4)]
)
def test_heat_rises_with_the_error_over_its_floor(excess: float | None, level: int | None) -> None:
    assert heat(excess) == level


def delegate(number: int, *args: str) -> tuple[Node, ...]:
    """The nodes that call a partition and pick its output."""
    module = Node(name=f"m{number}", op="get_attr", target=f"lowered_module_{number}")
    call = node(f"call{number}", DELEGATE, args=(Ref(module.name), *map(Ref, args)), multiple=True)
    return module, call, node(f"out{number}", "operator.getitem", args=(Ref(call.name), 0))


PARTITIONS = {"lowered_module_0": 0, "lowered_module_1": 1}


def test_a_program_shows_what_runs_where() -> None:
    nodes = (
        X,
        *delegate(0, "x"),
        node("topk", "aten.topk.default", args=(Ref("out0"),)),
        *delegate(1, "topk"),
    )
    inside = {0: [(0, measured(0.5)), (1, measured(9.0))], 1: [(2, measured(0.1))]}
    view = program_view(Graph(nodes=nodes, outputs=(), partitions=PARTITIONS), inside, "Program")
    assert view is not None
    assert [(box.title, box.detail, box.excess) for box in view.boxes] == [
        ("x", "", None),
        ("HTP, partition 0", "2 QNN tensors", 9.0),
        ("topk", "on the CPU", None),
        ("HTP, partition 1", "1 QNN tensor", 0.1),
    ]
    assert view.edges == (("x", "call0"), ("call0", "topk"), ("topk", "call1"))


def test_a_program_of_one_partition_is_not_drawn() -> None:
    graph = Graph(nodes=(X, *delegate(0, "x")), outputs=(), partitions=PARTITIONS)
    assert program_view(graph, {}, "Program") is None


def test_a_program_that_is_too_large_to_read_is_not_drawn() -> None:
    assert program_view(chain(200), {}, "Program") is None
    assert program_view(chain(20), {}, "Program") is not None

"""Differences of random graphs: none with oneself under any names and order, and each mirrors the other."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from qnndbg.analyze.diff.recordings import diff_recordings
from qnndbg.model.diff import Diff
from qnndbg.model.graph import Graph, Node, Ref
from qnndbg.report.diff_json import diff_json
from tests.unit.lowerings import call, encoding, held, lowering, net, renamed

OPS = ("relu", "gelu", "add", "linear", "mul")
SWAPPED_WORDS = {"regressed": "fixed", "worse": "better", "new": "gone"}
SWAPPED_WORDS |= {new: old for old, new in SWAPPED_WORDS.items()}
SWAPPED_KEYS = {
    "a": "b",
    "b": "a",
    "only_a": "only_b",
    "only_b": "only_a",
    "nodes_a": "nodes_b",
    "nodes_b": "nodes_a",
}


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """A graph of up to a dozen nodes, with duplicates and branches."""
    nodes: list[Node] = []
    for number in range(draw(st.integers(1, 12))):
        names = ["x", *(node.name for node in nodes)]
        if draw(st.integers(0, 4)) == 0:
            nodes.append(held(f"n{number}", draw(st.integers(0, 2))))
            continue
        reads = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2))
        fields: dict[str, Any] = {"module": draw(st.sampled_from(["", "m", f"m.{number % 3}"]))}
        fields["encoding"] = draw(st.sampled_from([None, encoding(), encoding(0.5)]))
        nodes.append(call(f"n{number}", draw(st.sampled_from(OPS)), *reads, **fields))
    return net(*nodes)


@st.composite
def edits(draw: st.DrawFn, graph: Graph) -> Graph:
    """The graph with a node changed, put in or taken out here and there."""
    nodes: list[Node] = []
    stands_for: dict[str, str] = {}
    for node in graph.nodes:
        args = tuple(
            Ref(stands_for.get(arg.node, arg.node)) if isinstance(arg, Ref) else arg for arg in node.args
        )
        kept = node if node.op != "call_function" else replace(node, args=args)
        what = draw(st.integers(0, 12)) if node.op == "call_function" else 0
        if what == 1:
            kept = replace(kept, target=f"aten.{draw(st.sampled_from(OPS))}.default")
        elif what == 2:
            kept = replace(kept, encoding=encoding(0.25))
        elif what == 3:
            kept = replace(kept, args=kept.args[::-1])
        elif what == 4:
            put_in = call(f"new_{node.name}", draw(st.sampled_from(OPS)), node.name)
            nodes.append(kept)
            kept = put_in
            stands_for[node.name] = put_in.name
        if node.op == "output":
            return net(*nodes[1:])
        nodes.append(kept)
    raise AssertionError


@st.composite
def rearranged(draw: st.DrawFn, graph: Graph) -> Graph:
    """The graph under other names, its nodes in another order that is as good."""
    waiting = list(graph.nodes[:-1])
    placed: list[Node] = []
    while waiting:
        names = {node.name for node in placed}
        ready = [n for n in waiting if all(not isinstance(a, Ref) or a.node in names for a in n.args)]
        chosen = draw(st.sampled_from(ready))
        waiting.remove(chosen)
        placed.append(chosen)
    ordered = replace(graph, nodes=(*placed, graph.nodes[-1]))
    shuffled = draw(st.permutations([f"z{i}" for i in range(len(ordered.nodes))]))
    return renamed(ordered, dict(zip((n.name for n in ordered.nodes), shuffled, strict=True)))


def both_ways(a: list[Graph], b: list[Graph]) -> tuple[Diff, Diff]:
    with tempfile.TemporaryDirectory() as name:
        left, right = (
            lowering(
                Path(name) / side,
                [("export", "" if not i else f"P{i}", graph) for i, graph in enumerate(steps)],
            )
            for side, steps in (("a", a), ("b", b))
        )
        return diff_recordings(left, right), diff_recordings(right, left)


def plain_data(diff: Diff) -> Any:
    return msgspec.json.decode(msgspec.json.encode(diff))


def mirrored(value: Any) -> Any:
    """Plain data of a difference, seen from the other side."""
    if isinstance(value, dict):
        return {SWAPPED_KEYS.get(key, key): mirrored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mirrored(item) for item in value]
    return SWAPPED_WORDS.get(value, value) if isinstance(value, str) else value


@given(st.data())
@settings(max_examples=40)
def test_no_names_and_no_order_make_a_difference(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    there, back = both_ways([graph], [data.draw(rearranged(graph))])
    assert there.same
    assert back.same


@given(st.data())
@settings(max_examples=60)
def test_difference_from_b_to_a_mirrors_that_from_a_to_b(data: st.DataObject) -> None:
    first = data.draw(graphs())
    a = [first, data.draw(edits(first))]
    b = [data.draw(rearranged(first)), data.draw(rearranged(data.draw(edits(first))))]
    there, back = both_ways(a, b)
    assert mirrored(plain_data(there)) == plain_data(back)


@given(st.data())
@settings(max_examples=40)
def test_edited_graph_is_the_same_exactly_if_nothing_was_edited(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    other = data.draw(edits(graph))
    there, _ = both_ways([graph], [data.draw(rearranged(other))])
    if other == graph:
        assert there.same
    if there.same:
        counts = [
            sorted((n.target, repr(n.encoding)) for n in g.nodes if n.op == "call_function")
            for g in (graph, other)
        ]
        assert counts[0] == counts[1]


@given(st.data())
@settings(max_examples=40)
def test_every_node_is_accounted_for_once(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    other = data.draw(edits(graph))
    there, _ = both_ways([graph], [other])
    for diff in there.graphs:
        changed_a = [node.a.name for node in diff.changed]
        changed_b = [node.b.name for node in diff.changed]
        assert len({*changed_a, *(p.name for p in diff.only_a)}) == len(changed_a) + len(diff.only_a)
        assert len({*changed_b, *(p.name for p in diff.only_b)}) == len(changed_b) + len(diff.only_b)
        assert len(graph.nodes) - len(diff.only_a) == len(other.nodes) - len(diff.only_b)


@given(graphs(), graphs())
@settings(max_examples=20)
def test_equal_differences_give_equal_bytes(a: Graph, b: Graph) -> None:
    assert diff_json(both_ways([a], [b])[0]) == diff_json(both_ways([a], [b])[0])

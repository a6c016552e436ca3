"""How well nodes are paired, measured against the truth on seeded edits of random nets."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from qnndbg.analyze.diff.form import Form, Interner, form_of
from qnndbg.analyze.diff.gaps import common_subsequence, increasing
from qnndbg.analyze.diff.pair import Evidence, Pairing, pair
from qnndbg.model.graph import Graph, Node, QuantParams, Ref
from tests.unit.lowerings import call, encoding, held, net

NOWHERE = Evidence((), "", "", "")
OTHER_OP = {"relu": "gelu", "gelu": "relu", "add": "mul", "mul": "add"}


class Op(NamedTuple):
    """A call, by a name that the truth is known by and that is no evidence."""

    name: str
    op: str
    sources: tuple[str, ...]
    weight: int | None
    scale: float | None


def random_ops(rng: random.Random, count: int) -> list[Op]:
    """A chain with branches, in which ops and encodings repeat."""
    ops: list[Op] = []
    names = ["x"]
    for number in range(count):
        op = rng.choice(["linear", "linear", "relu", "gelu", "add", "mul"])
        sources = (names[-1], rng.choice(names[-4:])) if op in ("add", "mul") else (names[-1],)
        weight = rng.randrange(10**6) if op == "linear" else None
        ops.append(Op(f"n{number}", op, sources, weight, rng.choice([None, 0.1, 0.2, 0.3])))
        names.append(ops[-1].name)
    return ops


def edited_ops(
    rng: random.Random, ops: list[Op], share: float, *, retrained: bool, coarser: bool
) -> list[Op]:
    """Of a share of the ops each: taken out, one put in behind, made another op."""
    found: list[Op] = []
    instead: dict[str, str] = {}
    for op in ops:
        chance = rng.random()
        sources = tuple(instead.get(source, source) for source in op.sources)
        if chance < share and len(sources) == 1 and op.weight is None:
            instead[op.name] = sources[0]
            continue
        weight = rng.randrange(10**6, 2 * 10**6) if retrained and op.weight is not None else op.weight
        scale = op.scale * 1.5 if coarser and op.scale else op.scale
        name = OTHER_OP.get(op.op, op.op) if chance > 1 - share else op.op
        found.append(Op(op.name, name, sources, weight, scale))
        if share < chance < 2 * share:
            found.append(Op(f"put_in_{op.name}", "tanh", (op.name,), None, None))
            instead[op.name] = f"put_in_{op.name}"
    return found


def graph_of(ops: list[Op]) -> Graph:
    nodes: list[Node] = []
    for op in ops:
        weights = [] if op.weight is None else [held(f"w_{op.name}", op.weight)]
        params: QuantParams | None = encoding(op.scale) if op.scale else None
        reads = (*op.sources, *(weight.name for weight in weights))
        nodes += [*weights, call(op.name, op.op, *reads, encoding=params)]
    return net(*nodes)


def paired(a: Graph, b: Graph) -> tuple[Form, Form, Pairing]:
    intern = Interner()
    left, right = form_of(a, intern), form_of(b, intern)
    origins = [NOWHERE] * len(a.nodes), [NOWHERE] * len(b.nodes)
    return left, right, pair(left, right, intern, *origins)


@pytest.mark.parametrize("coarser", [False, True])
@pytest.mark.parametrize("retrained", [False, True])
@pytest.mark.parametrize(("share", "least"), [(0.02, 0.99), (0.1, 0.90)])
def test_pairs_are_right_without_names_and_provenance(
    retrained: bool, coarser: bool, share: float, least: float
) -> None:
    rng = random.Random(7)
    right = total = 0
    for _ in range(20):
        ops = random_ops(rng, 60)
        other = edited_ops(rng, ops, share, retrained=retrained, coarser=coarser)
        a, b, found = paired(graph_of(ops), graph_of(other))
        known = set(b.names)
        for i, j in enumerate(found.to_b):
            if a.names[i] in known:
                total += 1
                right += j >= 0 and b.names[j] == a.names[i]
    assert right / total >= least


def test_pairs_are_the_same_from_either_side() -> None:
    rng = random.Random(3)
    for _ in range(50):
        ops = random_ops(rng, 40)
        a = graph_of(ops)
        b = graph_of(edited_ops(rng, ops, 0.1, retrained=True, coarser=True))
        _, _, there = paired(a, b)
        _, _, back = paired(b, a)
        assert (there.to_b, there.to_a) == (back.to_a, back.to_b)
        assert {there.to_b[i]: how for i, how in there.how.items()} == back.how


def test_every_pair_is_mutual_and_says_how_it_was_found() -> None:
    rng = random.Random(5)
    ops = random_ops(rng, 60)
    _, _, found = paired(graph_of(ops), graph_of(edited_ops(rng, ops, 0.2, retrained=True, coarser=False)))
    for i, j in enumerate(found.to_b):
        assert (j >= 0) == (i in found.how)
        assert j < 0 or found.to_a[j] == i


def test_reference_to_a_node_that_is_not_there_is_none() -> None:
    graph = net(call("r", "relu", "x"))
    broken = replace(
        graph, nodes=(graph.nodes[0], replace(graph.nodes[1], args=(Ref("gone"),)), graph.nodes[2])
    )
    _, _, found = paired(broken, graph)
    assert found.to_b == [0, 1, 2]


def test_longest_rising_part() -> None:
    pairs = list(enumerate([3, 1, 2, 5, 4, 6]))
    assert [j for _, j in increasing(pairs)] == [1, 2, 4, 6]
    assert increasing([]) == []


@pytest.mark.parametrize(
    ("a", "b", "length"),
    [("", "abc", 0), ("abc", "abc", 3), ("abcbdab", "bdcaba", 4), ("a" * 500, "a" * 499, 499)],
)
def test_common_subsequence(a: str, b: str, length: int) -> None:
    found = common_subsequence(a, b)
    assert len(found) == length
    assert all(a[x] == b[y] for x, y in found)
    assert found == increasing(found)


def test_common_subsequence_of_what_is_too_long_for_a_table_is_one_all_the_same() -> None:
    rng = random.Random(1)
    a, b = ([rng.choice("abcdefgh") for _ in range(400)] for _ in range(2))
    found = common_subsequence(a, b)
    assert len(found) > 40
    assert all(a[x] == b[y] for x, y in found)
    assert found == increasing(found)

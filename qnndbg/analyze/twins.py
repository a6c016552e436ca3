"""Pairs the nodes of a float model with those of its quantised form.

The quantiser adds nodes and moves none, and exporting again numbers the names anew; so the two lists of ops
are one sequence but for what was added, and the inputs keep their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher

from qnndbg.model.graph import Graph, Node


def twins(float_model: Graph, quantised: Graph) -> Mapping[str, Node]:
    """Each input and op of the float model that has a twin, by name, to the twin.

    Args:
        float_model: with the observers not yet in.
        quantised: with explicit quantise and dequantise ops.
    """
    ops, others = _ops(float_model), _ops(quantised)
    keys, other_keys = [_key(n) for n in ops], [_key(n) for n in others]
    pairs = {node.name: twin for node, twin in zip(_inputs(float_model), _inputs(quantised), strict=False)}
    if keys == other_keys:  # mostly, and the search takes long
        return pairs | {one.name: other for one, other in zip(ops, others, strict=True)}
    matcher = SequenceMatcher(a=keys, b=other_keys, autojunk=False)
    for one, other, size in matcher.get_matching_blocks():
        for i in range(size):
            pairs[ops[one + i].name] = others[other + i]
    return pairs


def _inputs(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "placeholder" and node.role == "input"]


def _ops(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "call_function" and "quantize_" not in node.target]


def _key(node: Node) -> tuple[object, ...]:
    return (node.target, *(spec and spec.shape for spec in node.outputs))

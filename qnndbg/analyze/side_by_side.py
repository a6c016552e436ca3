"""Two snapshots of one graph side by side: which node became which, and what about it is not the same.

A pass leaves the names of the nodes that it does not touch, so names align. Among nodes whose names differ,
those of equal op and ancestry are taken for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import takewhile
from operator import attrgetter
from typing import NamedTuple

from qnndbg.model.graph import Graph, Node

FIELDS = (
    "target", "args", "kwargs", "outputs", "multiple", "encoding", "requantize", "axis_order",
    "layout_permute", "quantized_io", "role", "constant",
)  # fmt: skip
"""What a node is; its place, number, origin and QNN tensor are left out."""
_fields = attrgetter(*FIELDS)


class Row(NamedTuple):
    """A node before, after, or both."""

    before: Node | None
    after: Node | None
    changed: tuple[str, ...] = ()
    """The fields that differ; with the number for an argument, as in ``args[1]``."""

    @property
    def same(self) -> bool:
        """Both sides have it and nothing differs."""
        return self.before is not None and self.after is not None and not self.changed


def side_by_side(before: Graph, after: Graph) -> tuple[Row, ...]:
    """Align two snapshots.

    Args:
        before: what a pass got.
        after: what it made.
    """
    return tuple(_rows(before.nodes, after.nodes))


def _rows(old: tuple[Node, ...], new: tuple[Node, ...]) -> Iterator[Row]:
    names = [node.name for node in old], [node.name for node in new]
    for tag, i, i_end, j, j_end in _opcodes(*names):
        if tag == "equal":
            pairs: list[tuple[Node | None, Node | None]] = list(zip(old[i:i_end], new[j:j_end], strict=True))
        else:
            pairs = _pair(old[i:i_end], new[j:j_end])
        for a, b in pairs:
            yield Row(a, b, () if a is None or b is None else changes(a, b))


def _opcodes(old: list[str], new: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """As of difflib, which is asked only about what is between an equal head and an equal tail."""
    head = _same(zip(old, new, strict=False))
    tail = _same(zip(reversed(old[head:]), reversed(new[head:]), strict=False))
    i_end, j_end = len(old) - tail, len(new) - tail
    matcher = SequenceMatcher(None, old[head:i_end], new[head:j_end], autojunk=False)
    if head:
        yield "equal", 0, head, 0, head
    for tag, *ends in matcher.get_opcodes():
        i, to_i, j, to_j = (head + end for end in ends)
        yield tag, i, to_i, j, to_j
    if tail:
        yield "equal", i_end, len(old), j_end, len(new)


def _same(pairs: Iterable[tuple[str, str]]) -> int:
    """How many pairs at the beginning are of equal names."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _pair(old: tuple[Node, ...], new: tuple[Node, ...]) -> list[tuple[Node | None, Node | None]]:
    """Pair nodes of equal op and ancestry, in order; the others stand alone at their places."""
    pairs: list[tuple[Node | None, Node | None]] = []
    left = list(old)
    for node in new:
        at = next((i for i, other in enumerate(left) if _alike(other, node)), None)
        if at is None:
            pairs.append((None, node))
        else:
            pairs += [(gone, None) for gone in left[:at]]
            pairs.append((left[at], node))
            del left[: at + 1]
    return [*pairs, *((gone, None) for gone in left)]


def _alike(a: Node, b: Node) -> bool:
    return (a.op, a.target) == (b.op, b.target) and a.origin.ancestors == b.origin.ancestors


def changes(before: Node, after: Node) -> tuple[str, ...]:
    """The fields of a node that differ."""
    if _fields(before) == _fields(after):
        return ()
    found = []
    for name in FIELDS:
        a, b = getattr(before, name), getattr(after, name)
        if a == b or (name == "target" and before.op != "call_function"):
            continue
        if name == "args" and len(a) == len(b):
            found += [f"args[{i}]" for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
        else:
            found.append(name)
    return tuple(found)

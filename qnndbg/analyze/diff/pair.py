"""Which node of one graph is which node of another.

Names are no evidence: tracing counts them anew. The evidence, from the strongest to the weakest:

* ``identical``: the node, all that it is computed from and all that is computed from it are the same
* ``inputs``, ``users``: it and all on the one side of it are the same
* ``neighbours``: it does the same, and so its neighbours were found
* ``provenance``: it does the same, for the same place in the user's model
* ``shape``: the ops above and below it are the same, whatever their constants and encodings
* ``order``: it does the same, in the same place of the order between two pairs
* ``place``: another op between the same neighbours, or for the same op of the user's model

A key pairs only nodes that it singles out (or that are equal in number and in everything), so that it
cannot pair at random; what it pairs tells its neighbours apart. All steps are linear but for sorting, and
for gaps that are short. Swapping the graphs swaps the pairs and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from qnndbg.analyze.diff.align import Alignment
from qnndbg.analyze.diff.form import UNKNOWN, Form, Interner, downward, shapes, upward
from qnndbg.analyze.diff.gaps import fill_gaps


class Evidence(NamedTuple):
    """Where a node comes from, in terms that both sides share."""

    ancestors: tuple[Hashable, ...]
    """Numbers of the nodes of the exported graph, the same for nodes that are paired there."""
    module: str
    source: str
    created_by: str


class Pairing(NamedTuple):
    """The pairs of two graphs, and what is left over."""

    to_b: list[int]
    """For each node of A the position of its partner, or ``UNKNOWN``."""
    to_a: list[int]
    how: dict[int, str]
    """Position in A to the evidence."""


def pair(
    a: Form, b: Form, intern: Interner, origins_a: Sequence[Evidence], origins_b: Sequence[Evidence]
) -> Pairing:
    """Pair the nodes of two graphs.

    Args:
        a: one graph.
        b: the other.
        intern: the one that made both.
        origins_a: where the nodes of A come from.
        origins_b: the same of B.
    """
    if _swapped(a, b, intern):
        work = Alignment(b, a)
        _pair_all(work, intern, origins_b, origins_a)
        return Pairing(work.to_a, work.to_b, {work.to_b[i]: how for i, how in work.how.items()})
    work = Alignment(a, b)
    _pair_all(work, intern, origins_a, origins_b)
    return Pairing(work.to_b, work.to_a, work.how)


def _swapped(a: Form, b: Form, intern: Interner) -> bool:
    """Work on the two in an order of their own, so that ties fall the same way from either side."""
    if len(a.exact) != len(b.exact):
        return len(a.exact) > len(b.exact)
    for left, right in zip(a.exact, b.exact, strict=True):
        if left != right:
            return intern.text(left) > intern.text(right)
    return a.refs > b.refs


def _pair_all(
    work: Alignment, intern: Interner, origins_a: Sequence[Evidence], origins_b: Sequence[Evidence]
) -> None:
    a, b = work.a, work.b
    up = [upward(form, intern) for form in (a, b)]
    down = [downward(form, intern) for form in (a, b)]
    work.by_key(list(zip(up[0], down[0], strict=True)), list(zip(up[1], down[1], strict=True)), "identical")
    if work.done:
        return
    work.by_key(up[0], up[1], "inputs", single=True)
    work.by_key(down[0], down[1], "users", single=True)
    work.spread(strict=True)
    for keys_a, keys_b, how in _weaker(a, b, intern, origins_a, origins_b):
        if work.done:
            return
        work.by_key(keys_a, keys_b, how, single=how != "shape")
        work.spread(strict=True)
    work.spread(strict=False)
    fill_gaps(work, origins_a, origins_b)
    work.spread(strict=False)
    _replaced(work, origins_a, origins_b)


Keys = list[Hashable]


def _weaker(
    a: Form, b: Form, intern: Interner, origins_a: Sequence[Evidence], origins_b: Sequence[Evidence]
) -> Iterator[tuple[Keys, Keys, str]]:
    """Keys in falling strength, each made when it is asked for."""
    sides = ((a, origins_a), (b, origins_b))
    for exact in (True, False):
        left, right = (_ancestry(form, origins, exact=exact) for form, origins in sides)
        yield left, right, "provenance"
    cones = [shapes(form, intern) for form, _ in sides]
    left, right = (_modules(origins, cone) for (_, origins), cone in zip(sides, cones, strict=True))
    yield left, right, "shape"
    left, right = (_homes(form, origins) for form, origins in sides)
    yield left, right, "provenance"
    yield [*cones[0]], [*cones[1]], "shape"
    left, right = (_sources(form, origins) for form, origins in sides)
    yield left, right, "provenance"


def _ancestry(form: Form, origins: Sequence[Evidence], *, exact: bool) -> Keys:
    own = form.exact if exact else form.kind
    return [
        (what, origin.ancestors, origin.created_by) if origin.ancestors else None
        for what, origin in zip(own, origins, strict=True)
    ]


def _modules(origins: Sequence[Evidence], cones: list[tuple[int, int]]) -> Keys:
    return [
        (cone, origin.module, origin.created_by) if origin.module else None
        for cone, origin in zip(cones, origins, strict=True)
    ]


def _homes(form: Form, origins: Sequence[Evidence]) -> Keys:
    return [
        (what, origin.module, origin.created_by) if origin.module else None
        for what, origin in zip(form.kind, origins, strict=True)
    ]


def _sources(form: Form, origins: Sequence[Evidence]) -> Keys:
    return [
        (what, origin.source, origin.module, origin.created_by) if origin.source else None
        for what, origin in zip(form.kind, origins, strict=True)
    ]


def _replaced(work: Alignment, origins_a: Sequence[Evidence], origins_b: Sequence[Evidence]) -> None:
    """Pair ops that stand in the same place, though they are others."""
    work.by_key(work.places("a"), work.places("b"), "place", single=True)
    sides = ((work.a, origins_a), (work.b, origins_b))
    keys = [[origin.ancestors or None for origin in origins] for _, origins in sides]
    work.by_key(keys[0], keys[1], "place", single=True)


__all__ = ["UNKNOWN", "Evidence", "Pairing", "pair"]

"""Pairs what no evidence but the order of the nodes tells apart, between pairs that are in order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise

from qnndbg.analyze.diff.align import Alignment
from qnndbg.analyze.diff.form import UNKNOWN

MAX_TABLE = 40_000
"""Cells of the table of a longest common subsequence; a larger gap is paired kind by kind, in order."""

Pair = tuple[int, int]


def fill_gaps(work: Alignment, origins_a: Sequence[Hashable], origins_b: Sequence[Hashable]) -> None:
    """Pair the free nodes of one kind in each gap between two pairs that are in order on both sides."""
    shapes = [
        [(exact, origin) for exact, origin in zip(form.exact, origins, strict=True)]
        for form, origins in ((work.a, origins_a), (work.b, origins_b))
    ]
    for left, right in _gaps(work):
        for keys_a, keys_b in ((shapes[0], shapes[1]), (work.a.kind, work.b.kind)):
            free_a = [i for i in left if work.to_b[i] < 0]
            free_b = [j for j in right if work.to_a[j] < 0]
            if free_a and free_b:
                _pair_in_order(work, free_a, free_b, [keys_a[i] for i in free_a], [keys_b[j] for j in free_b])


def _pair_in_order(
    work: Alignment, left: list[int], right: list[int], keys_a: list[Hashable], keys_b: list[Hashable]
) -> None:
    for x, y in common_subsequence(keys_a, keys_b):
        if not work.contradicted(left[x], right[y]):
            work.take(left[x], right[y], "order")


def _gaps(work: Alignment) -> list[tuple[range, range]]:
    anchors = increasing([(i, j) for i, j in enumerate(work.to_b) if j >= 0])
    ends = [(UNKNOWN, UNKNOWN), *anchors, (len(work.to_b), len(work.to_a))]
    return [(range(i + 1, k), range(j + 1, m)) for (i, j), (k, m) in pairwise(ends)]


def increasing(pairs: list[Pair]) -> list[Pair]:
    """The longest part of the pairs, which are in order of the first, in which the second rises, too."""
    tails: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for k, (_, j) in enumerate(pairs):
        at = bisect_left(tails, j)
        tails[at : at + 1] = [j]
        ends[at : at + 1] = [k]
        previous.append(ends[at - 1] if at else UNKNOWN)
    chain: list[Pair] = []
    k = ends[-1] if ends else UNKNOWN
    while k >= 0:
        chain.append(pairs[k])
        k = previous[k]
    return chain[::-1]


def common_subsequence(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Pair]:
    """Positions of equal keys, rising on both sides; the most that there are, unless the table is too large.

    What both begin and end with is paired first, as in any diff.
    """
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    inner_a, inner_b = a[start : len(a) - end], b[start : len(b) - end]
    method: Callable[[Sequence[Hashable], Sequence[Hashable]], list[Pair]]
    method = _longest if len(inner_a) * len(inner_b) <= MAX_TABLE else _kind_by_kind
    inner = [(x + start, y + start) for x, y in method(inner_a, inner_b)]
    head = [(k, k) for k in range(start)]
    tail = [(len(a) - k, len(b) - k) for k in range(end, 0, -1)]
    return head + inner + tail


def _longest(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Pair]:
    """By dynamic programming; the length of the best from each pair of positions to the ends."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for x in range(len(a) - 1, -1, -1):
        row, below = table[x], table[x + 1]
        for y in range(len(b) - 1, -1, -1):
            row[y] = below[y + 1] + 1 if a[x] == b[y] else max(below[y], row[y + 1])
    found: list[Pair] = []
    x = y = 0
    while x < len(a) and y < len(b):
        if a[x] == b[y]:
            found.append((x, y))
            x, y = x + 1, y + 1
        elif table[x + 1][y] >= table[x][y + 1]:
            x += 1
        else:
            y += 1
    return found


def _kind_by_kind(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Pair]:
    """The first of each key with the first, and so on; of these, the most that are in order."""
    places: dict[Hashable, list[int]] = {}
    for y in range(len(b) - 1, -1, -1):
        places.setdefault(b[y], []).append(y)
    pairs = [(x, places[key].pop()) for x, key in enumerate(a) if places.get(key)]
    return increasing(pairs)

"""Which passes of two lowerings are the same: by name and order, in each stage, method and partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from operator import itemgetter
from typing import NamedTuple

from qnndbg.analyze.diff.gaps import common_subsequence
from qnndbg.analyze.diff.graphs import STAGES, sorted_places
from qnndbg.analyze.diff.sides import Sides
from qnndbg.model.diff import PassDiff, PassRun, StageTime
from qnndbg.model.recording import PassEvent

Step = tuple[PassEvent | None, PassEvent | None]
"""An event of each side that are one; None where the other side has none."""


class Key(NamedTuple):
    """What an event is, whatever it did."""

    stage: str
    name: str


def align(a: Sequence[PassEvent], b: Sequence[PassEvent]) -> list[Step]:
    """Pair the events of two lists in order; what has no partner stands where it would.

    Args:
        a: of one method, or of one partition of it.
        b: the same of the other side.
    """
    keys_a, keys_b = ([Key(event.stage, event.name) for event in side] for side in (a, b))
    if (len(keys_a), keys_a) > (len(keys_b), keys_b):
        pairs = [(i, j) for j, i in common_subsequence(keys_b, keys_a)]
    else:
        pairs = common_subsequence(keys_a, keys_b)
    steps: list[Step] = []
    i = j = 0
    for x, y in [*pairs, (len(a), len(b))]:
        steps += [(event, None) for event in a[i:x]]
        steps += [(None, event) for event in b[j:y]]
        steps += [(a[x], b[y])] if x < len(a) and y < len(b) else []
        i, j = x + 1, y + 1
    return steps


def pass_diffs(a: Sequence[PassEvent], b: Sequence[PassEvent]) -> tuple[PassDiff, ...]:
    """All passes that are not the same in both, in the order of the lowering."""
    found: list[PassDiff] = []
    for events in _by_place(a, b):
        position = [{e.index: k for k, e in enumerate(side)} for side in events]
        ranked = [(_order(diff, *position), diff) for diff in _of_place(align(*events))]
        found += [diff for _, diff in sorted(ranked, key=itemgetter(0))]
    return tuple(found)


def _by_place(a: Sequence[PassEvent], b: Sequence[PassEvent]) -> Iterator[list[list[PassEvent]]]:
    """The events of both sides, of one stage, method and partition after the other."""
    left, right = ({(e.stage, e.method, e.partition): "" for e in side} for side in (a, b))
    for place in sorted_places(left, right):
        yield [[e for e in side if (e.stage, e.method, e.partition) == place] for side in (a, b)]


def settle(sides: Sides) -> None:
    """Take for no change what a pass did to the end of the graph only, which computes nothing.

    A pass that traces anew gives the end a value, so that which pass does so first depends on the way into
    the lowering. Only events are asked whose partner did not change its graph, as graphs take long to read.
    """
    for events in _by_place(sides.a.passes, sides.b.passes):
        for a, b in align(*events):
            for side, event, partner in ((sides.a, a, b), (sides.b, b, a)):
                if event and event.changed and not (partner and partner.changed):
                    side.settle(event)


def _order(diff: PassDiff, at_a: dict[int, int], at_b: dict[int, int]) -> tuple[list[int], str]:
    """By position, the same from either side."""
    positions = [at_a[diff.a.index]] if diff.a else []
    positions += [at_b[diff.b.index]] if diff.b else []
    return sorted(positions), (diff.a or diff.b or _NOTHING).name


_NOTHING = PassRun(index=0, name="")


def _of_place(steps: list[Step]) -> Iterator[PassDiff]:
    alone: dict[str, tuple[list[PassEvent], list[PassEvent]]] = {}
    for a, b in steps:
        if a and b:
            if (a.changed, a.error) != (b.changed, b.error):
                yield _diff(a, b, moved=False)
        elif a:
            alone.setdefault(a.name, ([], []))[0].append(a)
        elif b:
            alone.setdefault(b.name, ([], []))[1].append(b)
    for left, right in alone.values():
        for pair in zip_longest(left, right):
            yield _diff(*pair, moved=all(pair))


def _diff(a: PassEvent | None, b: PassEvent | None, *, moved: bool) -> PassDiff:
    either = a or b
    assert either is not None
    return PassDiff(
        stage=either.stage,
        method=either.method,
        partition=either.partition,
        a=run_of(a),
        b=run_of(b),
        moved=moved,
    )


def run_of(event: PassEvent | None) -> PassRun | None:
    """What a report says of an event."""
    if event is None:
        return None
    return PassRun(index=event.index, name=event.name, changed=event.changed, error=event.error)


def times(a: Sequence[PassEvent], b: Sequence[PassEvent]) -> tuple[StageTime, ...]:
    """Seconds of each stage that both sides have, where they differ."""
    left, right = _seconds(a), _seconds(b)
    stages = [stage for stage in STAGES if left.get(stage) and right.get(stage)]
    return tuple(
        StageTime(stage=stage, a=left[stage], b=right[stage])
        for stage in stages
        if left[stage] != right[stage]
    )


def _seconds(events: Sequence[PassEvent]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for event in events:
        sums[event.stage] = sums.get(event.stage, 0.0) + event.seconds
    return sums

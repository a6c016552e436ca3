"""Where two lowerings part: the first event whose graphs differ though all before them were the same.

The stages' last graphs tell in which stage that is, so that few graphs need to be read; within it, the events
of both sides are walked together. Events that one side has alone are judged by what comes of them: where the
graphs behind them are the same again, they are no parting. A difference that is gone at the end of its stage
is one only if nothing else is, and the passes themselves differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from qnndbg.analyze.diff.graphs import STAGES, graph_diff
from qnndbg.analyze.diff.passes import Step, align, run_of
from qnndbg.analyze.diff.sides import Sides
from qnndbg.model.diff import Parting, PartingKind
from qnndbg.model.recording import PassEvent


class Block(NamedTuple):
    """Events that only one side has, and the first behind them that both have."""

    only_a: list[PassEvent]
    only_b: list[PassEvent]
    both: tuple[PassEvent, PassEvent] | None


class Ends(NamedTuple):
    """The graphs that both sides have reached; empty before the first."""

    a: str = ""
    b: str = ""


class Way(NamedTuple):
    """The graphs before a block, and those behind it."""

    before: Ends
    behind: Ends


class Found(NamedTuple):
    """A parting, and the graphs that are no longer the same there."""

    parting: Parting
    graphs: Ends = Ends()


def graph_parting(sides: Sides) -> Parting | None:
    """The first parting of the graphs of any method, in the order of the stages; None if there is none."""
    methods = dict.fromkeys([*sides.a.methods(), *sides.b.methods()])
    found = [place for method in sorted(methods) for place in _of_method(sides, method)]
    if not found:
        return None
    parting, graphs = min(found, key=_when)  # how graphs differ takes long to tell, so only of the first
    place = STAGES[_stage(parting)], parting.method, parting.partition
    return replace(parting, graph=graph_diff(sides, place, *graphs) if all(graphs) else None)


def _when(found: Found) -> tuple[int, str, int]:
    parting = found.parting
    return _stage(parting), parting.method, -1 if parting.partition is None else parting.partition


def _stage(parting: Parting) -> int:
    return next(i for i, name in enumerate(STAGES) if name == parting.stage)


def _of_method(sides: Sides, method: str) -> Iterator[Found]:
    left, right = sides.a.events(method), sides.b.events(method)
    yield from _of_chain(sides, *([e for e in side if e.partition is None] for side in (left, right)))
    partitions = {e.partition for e in (*left, *right) if e.partition is not None}
    for number in sorted(partitions):
        parts = [[e for e in side if e.partition == number] for side in (left, right)]
        if all(parts):
            yield from _of_chain(sides, *parts, started=True)
        else:
            yield _partition_of_one(parts[0], parts[1])


def _of_chain(
    sides: Sides, a: Sequence[PassEvent], b: Sequence[PassEvent], *, started: bool = False
) -> Iterator[Found]:
    """The parting of one graph's way through the stages, if there is one."""
    stages, ends = _agreed(sides, a, b)
    left, right = ([e for e in side if e.stage not in stages] for side in (a, b))
    parting = _walk(sides, ends, left, right, started=started or bool(stages))
    if parting is None and _names(a) != _names(b):
        parting = _walk(sides, Ends(), a, b, started=started)
    if parting:
        yield parting


def _names(events: Sequence[PassEvent]) -> list[tuple[str, str, bool]]:
    return [(event.stage, event.name, event.changed) for event in events]


def _agreed(sides: Sides, a: Sequence[PassEvent], b: Sequence[PassEvent]) -> tuple[set[str], Ends]:
    """The first stages, up to the last one behind which the graphs are the same; and these graphs."""
    left, right = ({e.stage: e.after for e in side if e.after} for side in (a, b))
    agreed, ends = 0, Ends()
    for at, stage in enumerate(STAGES, start=1):
        if stage not in left or stage not in right:
            continue
        if not sides.same(left[stage], right[stage]):
            break
        agreed, ends = at, Ends(left[stage], right[stage])
    return set(STAGES[:agreed]), ends


def _partition_of_one(a: list[PassEvent], b: list[PassEvent]) -> Found:
    first = (a or b)[0]
    parting = Parting(
        kind="partitions",
        stage=first.stage,
        method=first.method,
        partition=first.partition,
        a=run_of(a[0]) if a else None,
        b=run_of(b[0]) if b else None,
    )
    return Found(parting)


def _walk(
    sides: Sides, ends: Ends, a: Sequence[PassEvent], b: Sequence[PassEvent], *, started: bool = False
) -> Found | None:
    steps = align(a, b)
    moved = _moved(steps)
    for block in _blocks(steps):
        parting = _judge(sides, block, ends, moved, started=started)
        if parting:
            return parting
        ends = _after(block, ends)
        started = started or bool(ends.a and ends.b)
    return None


Moved = dict[tuple[str, str], tuple[PassEvent, PassEvent]]
"""Stage and name of the passes that both sides have, at other places, and the first of each side."""


def _moved(steps: list[Step]) -> Moved:
    left = {(a.stage, a.name): a for a, b in reversed(steps) if a and not b and a.name}
    right = {(b.stage, b.name): b for a, b in reversed(steps) if b and not a and b.name}
    return {key: (left[key], right[key]) for key in left if key in right}


def _blocks(steps: list[Step]) -> Iterator[Block]:
    only_a: list[PassEvent] = []
    only_b: list[PassEvent] = []
    for a, b in steps:
        if a and b:
            yield Block(only_a, only_b, (a, b))
            only_a, only_b = [], []
        elif a:
            only_a.append(a)
        elif b:
            only_b.append(b)
    if only_a or only_b:
        yield Block(only_a, only_b, None)


def _after(block: Block, ends: Ends) -> Ends:
    """The graphs reached behind a block."""
    left = [*block.only_a, *([block.both[0]] if block.both else [])]
    right = [*block.only_b, *([block.both[1]] if block.both else [])]
    a, b = (
        next((e.after for e in reversed(side) if e.after), end)
        for side, end in zip((left, right), ends, strict=True)
    )
    return Ends(a, b)


def _judge(sides: Sides, block: Block, ends: Ends, moved: Moved, *, started: bool) -> Found | None:
    alone = Block(block.only_a, block.only_b, None)
    between = _after(alone, ends)
    if block.both is None:
        return _only_in_one(sides, alone, Way(ends, between), moved)
    a, b = block.both
    before = Ends(a.before or between.a, b.before or between.b)
    if block.only_a or block.only_b:
        got = Ends(a.before or a.after, b.before or b.after)
        parting = None if _same(sides, got) else _only_in_one(sides, alone, Way(ends, got), moved)
        if parting:
            return parting
    if a.error != b.error:
        return _at("failed", a, b, Ends())
    if _same(sides, Ends(a.after, b.after)):
        return None
    by_pass = bool(a.name and b.name) and _same(sides, before)
    kind: PartingKind = "behaviour" if by_pass else "between" if started else "start"
    return _at(kind, a, b, Ends(a.after, b.after))


def _same(sides: Sides, ends: Ends) -> bool:
    return sides.same(ends.a, ends.b) or not (ends.a and ends.b)


def _only_in_one(sides: Sides, block: Block, way: Way, moved: Moved) -> Found | None:
    """Something that one side alone has, and behind which the graphs are not the same."""
    before, behind = way
    a, b = (_culprit(side, end) for side, end in zip((block.only_a, block.only_b), before, strict=True))
    if not (a or b) or (behind.a and behind.b and sides.same(behind.a, behind.b)):
        return None
    for event in (a, b):
        if event and (event.stage, event.name) in moved:
            return _at("order", *moved[event.stage, event.name], behind)
    return _at("only-in-one", a, b, behind)


def _culprit(events: list[PassEvent], before: str) -> PassEvent | None:
    """The event that changed the graph first; else the first that left one, or that failed."""
    reached = before
    for event in events:
        made = reached and event.after not in ("", reached) and not event.before
        if event.changed or event.error or made:
            return event
        reached = event.after or reached
    return None


def _at(kind: PartingKind, a: PassEvent | None, b: PassEvent | None, graphs: Ends) -> Found:
    first = min((e for e in (a, b) if e), key=lambda e: STAGES.index(e.stage))
    parting = Parting(
        kind=kind,
        stage=first.stage,
        method=first.method,
        partition=first.partition,
        a=run_of(a),
        b=run_of(b),
    )
    return Found(parting, graphs)

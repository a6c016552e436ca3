"""Judges the layers by their local error over the noise floor, and their dtypes."""

from __future__ import annotations

from collections.abc import Iterator

from qnndbg.gate.limits import Limit, layer_limit, matches
from qnndbg.gate.sides import Case
from qnndbg.model.diff import Change, LayerDiff, LayerSide
from qnndbg.model.result import Comparison, LayerResult
from qnndbg.model.triage import Blame, Judgement, JudgementStatus

Key = tuple[str, int, str]
"""Method, partition and tensor."""


def judge_layers(case: Case) -> Iterator[Judgement]:
    """Every layer of either side that was compared."""
    before = _by_key(case.before) if case.before else {}
    changed = {_key(diff.b): diff for diff in case.diff.layers if diff.b} if case.diff else {}
    for layer in case.now.layers:
        if layer.given:
            continue  # what they do to an output is judged there
        if layer.local is None and layer.accumulated is None and _id(layer) not in changed:
            continue
        diff = changed.get(_id(layer))
        if case.diff is None:
            old = None
        else:
            old = before.get(_key(diff.a)) if diff and diff.a else None if diff else layer
        yield _judgement(case, layer, old, diff)
    for diff in case.diff.layers if case.diff else ():
        if diff.a and not diff.b:
            yield _gone(before[_key(diff.a)])


def _judgement(case: Case, layer: LayerResult, old: LayerResult | None, diff: LayerDiff | None) -> Judgement:
    limit = layer_limit(case.policy, layer)
    return Judgement(
        subject="layer",
        where=layer.tensor,
        method=layer.method,
        op=layer.op,
        module=layer.module,
        source=layer.source,
        status=(status := _status(case, layer, old, diff, limit)),
        fails=status == "regressed",
        before=None if old is None else finite(old.excess),
        now=finite(layer.excess),
        unit="× floor",
        limit=limit.value,
        said_by=limit.said_by,
        blame=Blame(by="", changes=diff.changes if diff else ()),
    )


def _status(
    case: Case, layer: LayerResult, old: LayerResult | None, diff: LayerDiff | None, limit: Limit
) -> JudgementStatus:
    if layer.local is None and old is not None and old.local is not None:
        return "missing"
    over, was_over = _over(layer, limit), old is not None and _over(old, limit)
    if old is None:
        return "regressed" if over else "unchanged" if case.before is None else "new"
    if over and (not was_over or (diff is not None and diff.local == "worse")):
        return "regressed"
    if was_over and (not over or (diff is not None and diff.local == "better")):
        return "fixed"
    if layer.excess is None and diff is not None:  # nothing says what rounding explains
        return {"worse": "regressed", "better": "fixed"}.get(diff.local, "unchanged")  # type: ignore[return-value]
    return "unchanged"


def _over(layer: LayerResult, limit: Limit) -> bool:
    return layer.excess is not None and layer.excess > limit.value


def finite(excess: float | None) -> float | str | None:
    """JSON has no infinity: an error of which rounding explains nothing is a word."""
    return "all error" if excess == float("inf") else excess


def _gone(layer: LayerResult) -> Judgement:
    return Judgement(
        subject="layer",
        where=layer.tensor,
        method=layer.method,
        op=layer.op,
        module=layer.module,
        status="missing",
        before=finite(layer.excess),
        unit="× floor",
    )


def judge_dtypes(case: Case) -> Iterator[Judgement]:
    """Layers and ports of the program whose dtype is another one."""
    layers = _by_key(case.now)
    for diff in case.diff.layers if case.diff else ():
        for change in diff.changes:
            if diff.b and change.what == "dtype":
                yield _dtype(case, change, diff.b.tensor, layers[_key(diff.b)])
    for change in case.diff.methods if case.diff else ():
        if ": input " in change.what or ": output " in change.what:
            yield _dtype(case, change, change.what, None)


def _dtype(case: Case, change: Change, where: str, side: LayerResult | None) -> Judgement:
    names = (where, side.op, side.module) if side else (where,)
    allowed = next(
        (
            entry
            for entry in case.policy.allow.dtype
            if matches(entry.match, *names)
            and matches(entry.before, str(change.a))
            and matches(entry.now, str(change.b))
        ),
        None,
    )
    return Judgement(
        subject="dtype",
        where=where,
        method=side.method if side else where.partition(":")[0],
        op=side.op if side else "",
        module=side.module if side else "",
        source=side.source if side else "",
        status="waived" if allowed else "regressed",
        fails=allowed is None,
        before=change.a,
        now=change.b,
        said_by=f"allow.dtype {allowed.match}" if allowed else "allow.dtype",
        waiver=allowed.reason if allowed else "",
        blame=Blame(by=""),
    )


def _by_key(comparison: Comparison) -> dict[Key, LayerResult]:
    return {_id(layer): layer for layer in comparison.layers}


def _id(layer: LayerResult) -> Key:
    return layer.method, layer.partition, layer.tensor


def _key(side: LayerSide) -> Key:
    return side.method, side.partition, side.tensor

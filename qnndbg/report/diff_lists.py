"""What differs beside the numbers, as lines of words: passes, ops on the CPU, QNN ops."""

from __future__ import annotations

from qnndbg.model.diff import Diff, PassDiff, PassRun
from qnndbg.report.diff_graphs import short
from qnndbg.report.diff_words import change_text, summed


def pass_lines(passes: tuple[PassDiff, ...], limit: int | None = None) -> list[str]:
    """Passes of which one side has none, or of which the two do not do the same; those of one side together.

    Args:
        passes: that differ.
        limit: how many of one side are named; None names all.
    """
    lines: list[str] = []
    lone: dict[tuple[str, str], list[PassRun]] = {}
    for diff in passes:
        run = diff.a or diff.b
        if diff.moved or (diff.a and diff.b):
            lines.append(f"{_place(diff)}: {_both(diff)}")
        elif run is not None:
            lone.setdefault((_place(diff), "A" if diff.a else "B"), []).append(run)
    lines += [_alone(place, side, runs, limit) for (place, side), runs in lone.items()]
    return lines


def _place(diff: PassDiff) -> str:
    words = [diff.stage] if diff.partition is None else [diff.stage, str(diff.partition)]
    return " ".join(words if diff.method == "forward" else [*words, diff.method])


def _alone(place: str, side: str, runs: list[PassRun], limit: int | None) -> str:
    """Passes that one side alone has; those that changed the graph first."""
    named = sorted((run for run in runs if run.name), key=lambda run: (not run.changed, run.index))
    names = [run.name + (" (changed the graph)" if run.changed else "") for run in named]
    if len(named) < len(runs):  # the snapshot with which it begins
        changed = sum(run.changed for run in named)
        told = f" with {len(named)} passes, of which {changed} changed the graph" if named else ""
        return f"{place}: all of it only in {side}{told}"
    few = names[:limit]
    rest = f" and {len(names) - len(few)} more" if len(few) < len(names) else ""
    return f"{place}: only in {side}: {', '.join(few)}{rest}"


def _both(diff: PassDiff) -> str:
    a, b = diff.a, diff.b
    if a is None or b is None:
        return ""
    if diff.moved:
        return f"{a.name} runs elsewhere in the order"
    if a.error or b.error:
        return f"{a.name} failed: " + "; ".join(
            f"{side}: {run.error or 'no'}" for side, run in (("A", a), ("B", b))
        )
    return f"{a.name} changed the graph in {'A' if a.changed else 'B'} only"


def fallback_lines(diff: Diff) -> list[str]:
    """What changed about the methods, and the ops that one side alone keeps on the CPU."""
    lines = [change_text(change) for change in diff.methods]
    for fallback in diff.fallbacks:
        a, b = fallback.a, fallback.b
        if a and b:
            lines.append(f"{short(b.op)} {b.node}: {a.reason} → {b.reason}")
        elif a or b:
            one = a or b
            assert one is not None
            lines.append(f"only in {'A' if a else 'B'}: {short(one.op)} {one.node}: {one.reason}")
    return lines


def qnn_lines(diff: Diff, *, everything: bool) -> list[str]:
    """QNN ops that differ, each with all its changes, or equal ones together with what kinds they are."""
    groups: dict[str, int] = {}
    for op in diff.qnn:
        one = op.b or op.a
        if one is None:
            continue
        words = f"only in {'A' if op.a else 'B'}"
        if op.a and op.b:
            words = "; ".join(map(change_text, op.changes)) if everything else summed(op.changes)
        label = f"{one.type} {one.name}" if everything else one.type
        groups[f"{label}: {words}"] = groups.get(f"{label}: {words}", 0) + 1
    return [f"{n} × {line}" if n > 1 else line for line, n in groups.items()]

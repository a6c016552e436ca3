"""QD4xx: what passes did, and what they said of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from qnndbg.analyze.rules.context import Context, finding
from qnndbg.model.recording import PassEvent
from qnndbg.model.result import Finding

SHOWN = 5


def find(context: Context) -> Iterator[Finding]:
    """Passes that changed numbers or failed, and claims that do not fit the graph."""
    for guilty in context.evidence.changes:
        change, node = guilty.change, guilty.touched.first
        if change.narrowed:
            continue  # QD202
        yield finding(
            "QD401",
            "error",
            change.name,
            f"the pass {change.name} of the stage {change.stage} changes the numbers",
            evidence=_touched(guilty.touched.changed, guilty.touched.made, guilty.touched.gone),
            origin=node.origin if node else None,
            method=change.method,
        )
    runs = [event for event in context.recording.passes if event.name]
    for event in runs:
        if event.error:
            yield finding("QD402", "error", event.name, event.error, method=event.method)
    idle = [event for event in runs if event.claimed_modified and not event.changed]
    if idle:
        yield finding(
            "QD403",
            "note",
            "passes",
            f"{len(idle)} of {len(runs)} pass runs say that they modified the graph, and left it as it was",
            evidence=_names(idle),
        )
    silent = [event for event in runs if event.claimed_modified is False and event.changed]
    if silent:
        yield finding(
            "QD404",
            "note",
            "passes",
            f"{len(silent)} pass runs changed the graph, and say that they did not",
            evidence=_names(silent),
        )


def _names(events: Iterable[PassEvent]) -> str:
    names = list(dict.fromkeys(event.name for event in events))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _touched(changed: Iterable[object], made: Iterable[object], gone: Iterable[object]) -> str:
    counts = {"changed": len(list(changed)), "made": len(list(made)), "removed": len(list(gone))}
    return ", ".join(f"{count} nodes {what}" for what, count in counts.items() if count)

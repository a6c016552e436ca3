"""The stages and passes as lines: what each did to the graph and the numbers; those that did nothing fold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from rich.text import Text

from qnndbg.errors import QnndbgError
from qnndbg.model.recording import PassEvent
from qnndbg.report import units
from qnndbg.tui.places import PassAt
from qnndbg.tui.sheet import Line
from qnndbg.tui.state import Session


class Group(NamedTuple):
    """The passes of one stage, method and partition."""

    stage: str
    method: str
    partition: int | None
    events: tuple[tuple[int, PassEvent], ...]
    """Each with its position in the recording."""

    @property
    def key(self) -> tuple[str, str, int | None, int]:
        """What tells it from others."""
        return self.stage, self.method, self.partition, self.events[0][0]


def groups_of(session: Session) -> tuple[Group, ...]:
    """All stages in the order in which they ran."""
    found: list[tuple[tuple[str, str, int | None], list[tuple[int, PassEvent]]]] = []
    for i, event in enumerate(session.passes):
        key = (event.stage, event.method, event.partition)
        if not found or found[-1][0] != key:
            found.append((key, []))
        found[-1][1].append((i, event))
    return tuple(Group(*key, tuple(events)) for key, events in found)


def blamed(session: Session) -> dict[int, str]:
    """Index of an event that changed the numbers to what it parted."""
    return {c.event: f"{c.after} → {c.before}" for c in session.recording.pass_changes}


def notable(session: Session, event: PassEvent) -> bool:
    """It changed the graph or the numbers, or failed."""
    return event.changed or bool(event.error) or event.index in blamed(session)


def count_nodes(session: Session) -> Iterator[None]:
    """Count the nodes of all graphs; yields before each, as that takes a while."""
    for digest in dict.fromkeys(d for event in session.passes for d in (event.before, event.after)):
        if digest and digest not in session.node_counts:
            yield
            with suppress(QnndbgError):  # said when the pass is looked at
                session.node_counts[digest] = session.recording.node_count(digest)


def lines_of(session: Session, unfolded: set[object], width: int) -> Iterator[Line]:
    """Every stage with its passes.

    Args:
        session: what to look things up in.
        unfolded: keys of the stages of which all passes are shown.
        width: cells of a line.
    """
    several = len({e.method for e in session.passes}) > 1
    groups = groups_of(session)
    failure = session.recording.manifest.failure
    stage = "" if failure is None else failure.stage
    broken = next((group for group in reversed(groups) if group.stage == stage), None)
    for group in groups:
        runs = [(i, e) for i, e in group.events if e.name]
        changed = sum(e.changed for _, e in runs)
        name = " ".join([
            group.stage,
            *([group.method] if several else []),
            *([] if group.partition is None else [f"#{group.partition}"]),
        ])  # fmt: skip
        seconds = sum(e.seconds for _, e in runs)
        sign = "▾" if group.key in unfolded else "▸"
        count = f"{len(runs)} pass{'' if len(runs) == 1 else 'es'}"
        text = Text.assemble(
            (f"{sign} {name:<22}", "title"),
            (f" {count:>12}", ""),
            (f"  {changed} changed it" if changed else "", "changed"),
            (f"  {_seconds(seconds)}" if runs else "", "faint"),
            (
                f"  {units.BROKEN} failed: {failure.error}"
                if group is broken and failure is not None
                else "",
                "bad",
            ),
        )
        yield Line(text, data=group)
        shown = runs if group.key in unfolded else [(i, e) for i, e in runs if notable(session, e)]
        for i, event in shown:
            yield Line(pass_text(session, i, event, width), PassAt(i), event)


def pass_text(session: Session, position: int, event: PassEvent, width: int) -> Text:
    """One pass: number, name, nodes, numbers, time."""
    room = max(min(width - 76, 44), 28)
    moved = blamed(session).get(event.index)
    sign, style = (
        (units.BROKEN, "bad") if event.error else (units.MADE_HERE, "made") if moved
        else ("~", "changed") if event.changed else (" ", "faint")
    )  # fmt: skip
    what = (
        f"failed: {event.error}" if event.error
        else f"≠ numbers: {moved}" if moved
        else "" if event.changed
        else "says it changed it" if event.claimed_modified
        else ""
    )  # fmt: skip
    return Text.assemble(
        (f"  {sign} ", style),
        (f"{position:>4} ", "faint"),
        (f"{units.clip_right(event.name, room):<{room}}", "" if event.changed or event.error else "faint"),
        (f" {_nodes(session, event):>12}", "" if event.changed else "faint"),
        (f" {_seconds(event.seconds):>8}  ", "faint"),
        (what, style if sign != "~" else ""),
    )


def _nodes(session: Session, event: PassEvent) -> str:
    after = session.node_counts.get(event.after)
    if after is None:
        return ""
    before = session.node_counts.get(event.before)
    if not event.changed or before is None:
        return str(after)
    return f"{after} ({'±0' if before == after else format(after - before, '+d')})".replace("-", "−")


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"

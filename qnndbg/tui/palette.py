"""The command palette: every key by its name, every page, layer, pass and finding by what it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from qnndbg.analyze.phrases import short_op
from qnndbg.report import units
from qnndbg.tui.keys import Help, key_name, shown
from qnndbg.tui.places import FindingAt, PassAt, Place

if TYPE_CHECKING:
    from qnndbg.tui.app import QnndbgApp

SHOWN = 40
"""Hits of each kind; a recording may have thousands."""


class Commands(Provider):
    """What the keys of the screen do."""

    @property
    def shell(self) -> QnndbgApp:
        """The application."""
        return cast("QnndbgApp", self.app)

    async def discover(self) -> Hits:
        """All of them."""
        for name, key, run in self._all():
            yield DiscoveryHit(name, run, help=f"key {key}")

    async def search(self, query: str) -> Hits:
        """Those whose name fits."""
        matcher = self.matcher(query)
        for name, key, run in self._all():
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), run, help=f"key {key}")

    def _all(self) -> Iterator[tuple[str, str, Callable[[], None]]]:
        if isinstance(self.screen, Help):
            return
        for keys, binding in shown(self.screen):
            if binding.action not in {"command_palette", "open"}:
                yield binding.description, key_name(keys[0]), partial(self.app.simulate_key, keys[0])


class Places(Provider):
    """Where one can go."""

    @property
    def shell(self) -> QnndbgApp:
        """The application."""
        return cast("QnndbgApp", self.app)

    async def search(self, query: str) -> Hits:
        """Layers, passes and findings that have all words of the query in their names."""
        words = query.lower().split()
        matcher = self.matcher(query)
        left: dict[str, int] = {}
        for kind, raw, place in self._all():
            name = raw.translate(units.CONTROLS)
            lowered = name.lower()
            if all(word in lowered for word in words) and left.get(kind, 0) < SHOWN:
                left[kind] = left.get(kind, 0) + 1
                run = partial(self.shell.go, place)
                yield Hit(max(matcher.match(name), 0.5), matcher.highlight(name), run, help=kind)

    def _all(self) -> Iterator[tuple[str, str, Place]]:
        session = self.shell.session
        for key, layer in session.layers.items():
            sign = f"{units.MADE_HERE} " if key in session.made else ""
            names = " ".join(part for part in (key.tensor, short_op(layer.op), layer.module) if part)
            yield "layer", sign + names, key
        for i, event in enumerate(session.passes):
            if event.name:
                mark = " (changed the graph)" if event.changed else ""
                yield "pass", f"{event.name} in {event.stage}{mark}", PassAt(i)
        for i, found in enumerate(session.answer.findings):
            yield "finding", f"{found.rule} {found.where}: {found.message}", FindingAt(i)

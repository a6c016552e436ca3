"""Every key of every screen, pressed in turn: each does something or says why not, and nothing breaks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from qnndbg.recording.store import Recording, open_recording
from qnndbg.tui import browser
from qnndbg.tui.app import QnndbgApp
from qnndbg.tui.keys import TEXTUALS
from qnndbg.tui.places import PageAt
from tests.tui.conftest import Drive, Driver
from tests.tui.recorded import make
from tests.tui.test_jobs import EVENTS, instead, until

SIZE = (112, 14)
"""So small that there is something to scroll to, and so wide that the overview has two columns."""
SCREENS: dict[str, tuple[str, ...]] = {
    "overview": ("escape", "g", "j"),
    "passes": ("2", "j"),
    "pass": ("2", "right_square_bracket", "tab", "j"),
    "layers": ("3", "j", "j"),
    "layer": ("3", "j", "j", "enter", "j"),
    "graph": ("4", "j", "j"),
    "node": ("4", *"jjj", "enter", "right", "k"),
    "tensor": ("3", "right_square_bracket", "enter", "t", "j"),
    "findings": ("5", "j"),
    "jobs": ("7", "j"),
    "help": ("3", "question_mark", "j"),
    "diff": ("escape", "6", "g", "j"),
    "layer of two": ("escape", "6", "g", "j", "3", "enter", "j"),
}
"""The keys to a place where all others have something to do."""
REST = 0.1
"""Seconds; a pass is shown once the cursor rests on it."""
NOTHING = {
    "help": {"left", "right", "ctrl+pageup", "ctrl+pagedown"},  # it scrolls one way
}
"""Keys that can have no effect at such a place."""


class Watch:
    """What a key can bring about, beside what is drawn.

    Args:
        monkeypatch: takes the place of what would leave the screen.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.left = 0
        monkeypatch.setattr(QnndbgApp, "say", lambda _app, text, **_: self.said.append(text))
        monkeypatch.setattr(QnndbgApp, "exit", lambda *_: setattr(self, "left", self.left + 1))

    def seen(self, ui: Driver) -> tuple[object, ...]:
        """All of it; equal if nothing happened."""
        screen = ui.app.screen
        drawn = [list(strip) for strip in screen._compositor.render_strips()]
        return [id(screen) for screen in ui.app.screen_stack], drawn, ui.app.clipboard

    async def effect(self, ui: Driver, key: str) -> bool:
        """Press a key; whether anything came of it."""
        before, told = self.seen(ui), (len(self.said), self.left)
        await press(ui, key)
        if (len(self.said), self.left) == told and self.seen(ui) == before:  # perhaps it takes its time
            await ui.pilot.pause(REST)
            await ui.settle()
        assert ui.app._exception is None
        assert all(self.said)
        return (len(self.said), self.left) != told or self.seen(ui) != before


def keys_of(ui: Driver) -> Iterator[str]:
    """Keys that are bound where one is, but for those by which Textual moves its own widgets."""
    for key, (_, binding, _, _) in ui.app.screen.active_bindings.items():
        if not binding.system and binding.action not in TEXTUALS:
            yield key


async def press(ui: Driver, key: str) -> None:
    """Press a key and wait for what it starts, but not for an idle processor: there are hundreds of them."""
    ui.app.simulate_key(key)
    await ui.pilot.pause(0.001)
    while ui.app._batch_count or any(not worker.is_finished for worker in ui.app.workers):
        await ui.pilot.pause(0.001)
    await ui.pilot.pause(0.001)


async def to(ui: Driver, name: str) -> None:
    """Go to a screen, from the first one."""
    ui.app.trail.forget()
    ui.app.go(PageAt(ui.app.home))
    await ui.settle()
    for key in SCREENS[name]:
        await press(ui, key)
        if name in {"passes", "pass"}:
            await ui.pilot.pause(REST)
    await ui.settle()


@pytest.fixture
def other(tmp_path: Path) -> Recording:
    return open_recording(make(tmp_path / "mended.qnndbg", faults={8: ((0, 5, 0, 3), 40)}))


@pytest.mark.parametrize("name", SCREENS)
def test_each_key_does_something_or_says_why_not(
    drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Recording, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(browser, "has_display", lambda _: False)
    watch = Watch(monkeypatch)

    async def script(ui: Driver) -> None:
        if name == "jobs":
            instead(monkeypatch, EVENTS.replace("{sys.argv[-1]}", str(tmp_path / "none")))
            await ui.press("R", "enter")
            await until(ui, "compare")
        await to(ui, name)
        keys = list(keys_of(ui))
        assert len(keys) > (3 if name == "help" else 30)
        assert not await watch.effect(ui, "y"), "y is bound to nothing"
        silent = set()
        for key in keys:
            there = watch.seen(ui)
            if not await watch.effect(ui, key):
                silent.add(key)
            if watch.seen(ui) != there:
                await to(ui, name)
        assert silent == NOTHING.get(name, set())

    drive(script, size=SIZE, other=other if name in {"diff", "layer of two"} else None)

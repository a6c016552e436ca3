"""One recording for all tests of the terminal UI, and a way to drive the UI over it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from qnndbg.recording.store import Recording, open_recording
from qnndbg.tui import state
from qnndbg.tui.app import QnndbgApp
from tests.tui.recorded import make

NET = """\
def forward(self, x):
    for block in self.encoder:
        y = block.convolution(x)
        y = F.hardswish(y)
        y = F.relu(y)
        y = F.gelu(y)
        x = x + y
"""

Script = Callable[["Driver"], Awaitable[None]]
Drive = Callable[..., None]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording, with the source file that it names beside it."""
    place = tmp_path_factory.mktemp("tui")
    (place / "net.py").write_text(NET, encoding="utf-8")
    return make(place / "net.qnndbg")


class Driver:
    """Presses keys and reads the screen."""

    def __init__(self, app: QnndbgApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> None:
        """Press keys, and wait for what they start."""
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def type(self, text: str) -> None:
        """Type a text."""
        names = {" ": "space", ":": "colon", ">": "greater_than_sign", ".": "full_stop", "*": "asterisk"}
        names |= {"_": "underscore", "<": "less_than_sign", "@": "at", "!": "exclamation_mark"}
        await self.pilot.press(*(names.get(letter, letter) for letter in text))
        await self.settle()

    async def settle(self) -> None:
        """Wait until nothing moves, and what moved is drawn."""
        await self.pilot.pause()
        while self.app._batch_count:
            await self.pilot.pause(0.01)
        await self.app.workers.wait_for_complete()
        await self.pilot.pause()

    def lines(self) -> list[str]:
        """The screen as text."""
        width, height = self.app.size
        screen = self.app.screen
        strips = screen._compositor.render_strips()
        assert len(strips) == height
        return ["".join(segment.text for segment in strip)[:width].rstrip() for strip in strips]

    def text(self) -> str:
        """The screen as one text."""
        return "\n".join(self.lines())

    def line(self, part: str) -> str:
        """The one line that has a text in it."""
        found = [line for line in self.lines() if part in line]
        assert len(found) == 1, f"{part!r} is in {len(found)} lines of\n{self.text()}"
        return found[0]


@pytest.fixture
def drive(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Drive:
    """Run a script against the UI, whose work behind the screen does not wait for a pause of the user."""
    monkeypatch.setattr(state, "REST", 0.0)
    monkeypatch.setattr(state, "SHORT_REST", 0.0)

    def run(
        script: Script,
        size: tuple[int, int] = (80, 24),
        recording: Recording | None = None,
        other: Recording | None = None,
    ) -> None:
        async def main() -> None:
            app = QnndbgApp(recording or open_recording(folder), folder.parent, other)
            async with app.run_test(size=size) as pilot:
                driver = Driver(app, pilot)
                await driver.settle()
                await script(driver)

        asyncio.run(main())

    return run

"""The pytest plugin: a fixture that holds a lowering against its baseline, ``--qnndbg-update`` to accept.

Imports nothing of qnndbg until the fixture is used, so that pytest starts as fast with it as without.
"""

from __future__ import annotations

import datetime
import inspect
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from qnndbg.gate.policy import Policy
    from qnndbg.model.triage import Triage
    from qnndbg.recording.store import Recording

Lowered: TypeAlias = "str | Path | Callable[[], object] | Recording"
"""What can be checked: a factory or its name, a recording or its folder."""

UPDATE = "--qnndbg-update"
WIDTH = 100


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option and the settings."""
    group = parser.getgroup("qnndbg", "lowerings held against their baselines")
    group.addoption(UPDATE, action="store_true", help="accept what the HTP computes now as the baselines")
    parser.addini("qnndbg_snapshots", "folder of the baselines, from the rootdir", default="snapshots")
    parser.addini("qnndbg_policy", "the policy, from the rootdir, if it is there", default="qnndbg.toml")


@pytest.fixture
def qnndbg_check(request: pytest.FixtureRequest, tmp_path: Path) -> Check:
    """Record a lowering and hold it against ``snapshots/NAME.baseline``; see :class:`Check`."""
    return Check(request.node, request.config, tmp_path)


@dataclass(frozen=True, slots=True)
class Check:
    """What the fixture gives."""

    node: pytest.Item
    config: pytest.Config
    folder: Path
    """Where recordings are made."""

    def __call__(
        self,
        lowered: Lowered,
        name: str = "",
        *,
        precision: str = "fp16",
        soc: str = "SM8650",
        sdk: str | None = None,
    ) -> Triage | None:
        """Check a lowering; the test fails with the triage if it regressed.

        Args:
            lowered: a factory of the test's module or its name (``file.py:make``), which is recorded; or a
                recording or its folder.
            name: of the baseline; by default that of the test.
            precision: of what is recorded.
            soc: of what is recorded.
            sdk: of what is recorded.

        Returns:
            The triage; None if there was no baseline yet and one was written.
        """
        from qnndbg.errors import QnndbgError
        from qnndbg.recording.writer import file_name

        name = name or file_name(self.node.name)
        try:
            recording = self._recording(lowered, name, precision, soc, sdk)
            found = self._judged(recording, name)
        except QnndbgError as error:
            words = f"{error.fact}\nhint: {error.hint}" if error.hint else error.fact
            raise pytest.fail.Exception(words, pytrace=False) from None  # or pytest shows both
        if found is not None and not found.passed and not self.config.getoption(UPDATE):
            pytest.fail(self._failure(found, recording), pytrace=False)
        return found

    def _recording(self, lowered: Lowered, name: str, precision: str, soc: str, sdk: str | None) -> Recording:
        from qnndbg.recording.store import Recording, open_recording

        if isinstance(lowered, Recording):
            return lowered
        if isinstance(lowered, Path):
            return open_recording(lowered)
        from qnndbg.pipeline.record import Request, record

        target = lowered if isinstance(lowered, str) else target_of(lowered)
        output = self.folder / f"{name}.qnndbg"
        request = Request(target=target, precision=precision, soc=soc, sdk=sdk, output=output, force=True)
        return record(request, lambda _event: None)

    def _judged(self, recording: Recording, name: str) -> Triage | None:
        from qnndbg.analyze.baseline.reduce import baseline_of
        from qnndbg.errors import UsageError
        from qnndbg.gate.triage import compared, triage
        from qnndbg.recording.baseline import BASELINE_SUFFIX, absent, outdated, write_baseline
        from qnndbg.recording.store import open_recording

        place = self.config.rootpath / self.config.getini("qnndbg_snapshots") / f"{name}{BASELINE_SUFFIX}"
        update = self.config.getoption(UPDATE)
        if absent(place) and not update:
            shown = place.relative_to(self.config.rootpath)
            raise UsageError(
                f"there is no baseline {shown}", f"make one of what there is now: pytest {UPDATE}"
            )
        before = not absent(place) and not (update and outdated(place))
        found = triage(recording, open_recording(place), self._policy()) if before else None
        if update:
            compared(recording)
            write_baseline(place, baseline_of(recording))
            self.node.add_report_section("call", "qnndbg", f"accepted {place.name}")
        return found

    def _policy(self) -> Policy:
        from qnndbg.gate.policy import Policy, read_policy

        path = self.config.rootpath / self.config.getini("qnndbg_policy")
        today = datetime.datetime.now(datetime.UTC).date()
        return read_policy(path, today) if path.is_file() else Policy()

    def _failure(self, found: Triage, recording: Recording) -> str:
        from rich.console import Console

        from qnndbg.report.triage_text import print_triage

        text = io.StringIO()
        print_triage(Console(file=text, width=WIDTH, color_system=None, force_terminal=False), found)
        lines = [line.rstrip() for line in text.getvalue().splitlines()]
        return "\n".join([*lines, "", f"look at it: qnndbg show {recording.folder}", f"accept it: {UPDATE}"])


def target_of(factory: Callable[[], object]) -> str:
    """The name by which a recording's worker process finds a factory.

    Raises:
        UsageError: it is no function at the top of a file.
    """
    from qnndbg.errors import UsageError

    name = getattr(factory, "__qualname__", "<lambda>")
    path = inspect.getsourcefile(factory)
    if path is None or "<" in name:
        raise UsageError(
            f"{name} is no function at the top of a file",
            "the factory is called in another process; move it out",
        )
    return f"{path}:{name}"

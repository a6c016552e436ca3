"""The bundled examples against their baselines, by the policy that lies beside these."""

from __future__ import annotations

import datetime

import pytest

from qnndbg.analyze.baseline.reduce import baseline_of
from qnndbg.gate.policy import read_policy
from qnndbg.gate.triage import triage
from qnndbg.recording.store import open_recording
from qnndbg.report.triage_json import triage_json
from tests.emulator.conftest import ROOT, Recorded

SNAPSHOTS = ROOT / "snapshots"
NAMES = tuple(sorted(path.stem for path in SNAPSHOTS.glob("*.baseline")))
PRECISIONS = ("fp16", "8a8w", "16a8w")
CHECKED = ("digits-8a8w", "rnet-16a8w", "silero-fp16")
"""Those that other tests record, too; `make check CHECKED=all` checks every one."""


def test_every_example_has_its_baselines() -> None:
    made = [f"{name}-{precision}" for name in ("digits", "rnet", "silero") for precision in PRECISIONS]
    assert list(NAMES) == sorted(made)


@pytest.mark.parametrize("name", NAMES)
def test_baseline_opens_and_is_small(name: str) -> None:
    baseline = open_recording(SNAPSHOTS / f"{name}.baseline")
    assert baseline.manifest.complete
    assert baseline.manifest.environment.packages["executorch"]
    size = sum(path.stat().st_size for path in baseline.folder.rglob("*") if path.is_file())
    assert size < 200_000


@pytest.mark.parametrize("name", CHECKED)
def test_example_is_as_its_baseline(name: str, recorded: Recorded) -> None:
    example, _, precision = name.partition("-")
    recording = recorded(f"example:{example}", precision)
    policy = read_policy(SNAPSHOTS / "qnndbg.toml", datetime.date(2000, 1, 1))
    found = triage(recording, open_recording(SNAPSHOTS / f"{name}.baseline"), policy)
    assert found.passed, triage_json(found)
    assert sum(found.counts.values()) > 10


def test_what_a_baseline_holds_is_what_it_was_made_of(recorded: Recorded) -> None:
    made = baseline_of(recorded("example:digits", "8a8w"))
    kept = baseline_of(open_recording(SNAPSHOTS / "digits-8a8w.baseline"))
    assert [e.name for e in kept.data.passes] == [e.name for e in made.data.passes]

"""``qnndbg bisect``: the pass in which an output is lost, found again from a recording alone."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.emulator.conftest import Command, Recorded


def test_the_quantiser_is_found_with_the_loss_that_the_ladder_has(
    recorded: Recorded, command: Command
) -> None:
    recording = recorded("example:digits", "8a8w")
    done = command("bisect", str(recording.folder), "--format", "json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    eager, quantised = (
        recording.tensor(run.results[0]).astype(np.float64)
        for run in (recording.run("eager"), recording.run("quantized"))
        if run is not None and run.results[0] is not None
    )
    lost = 20 * np.log10(np.linalg.norm(eager) / np.linalg.norm(quantised - eager))
    assert (answer["found"]["stage"], answer["found"]["name"]) == ("quantized", "convert_pt2e")
    assert answer["found"]["sqnr_db"] == pytest.approx(lost, abs=1e-3)
    assert len(answer["probes"]) < answer["graphs"]


def test_behind_the_quantiser_nothing_is_lost(recorded: Recorded, command: Command) -> None:
    folder = str(recorded("example:digits", "8a8w").folder)
    done = command("bisect", folder, "--against", "quantized", "--below", "90", QNNDBG_PROGRESS="json")
    assert done.stdout.startswith("behind no pass is output 0 below 90.0 dB")
    events = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert all(event["probe"]["sqnr_db"] == 100.0 for event in events)
    assert events


def test_an_output_that_is_not_there_is_named(recorded: Recorded, command: Command) -> None:
    done = command("bisect", str(recorded("example:digits", "8a8w").folder), "--output", "3")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-2:] == [
        "qnndbg: error: forward has no output 3 that is a tensor",
        "hint: those that are: 0",
    ]

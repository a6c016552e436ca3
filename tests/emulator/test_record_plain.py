"""Recording changes no answer: a lowering that knows nothing of qnndbg gives the same bits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qnndbg.execute.sdk import find_sdk
from tests.emulator.conftest import NETS, ROOT, Recorded

CASES = (
    (f"{ROOT}/examples/mixed.py:mixed", "16a8w"),
    (f"{ROOT}/examples/mixed.py:overflow", "fp16"),
    (f"{NETS}:fallback", "8a8w"),
    (f"{NETS}:topk", "8a8w"),
    (f"{NETS}:embedding", "fp16"),
    (f"{NETS}:contiguous", "8a8w"),
    (f"{NETS}:channels_last", "8a8w"),
)
Outputs = dict[str, list[Any]]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """The outputs of each case by its factory's name."""
    out = tmp_path_factory.mktemp("plain") / "outputs.npz"
    jobs = [f"{target}={precision}" for target, precision in CASES]
    run([str(find_sdk().root), str(out), *jobs], out.with_suffix(".log"))
    with np.load(out, allow_pickle=False) as stored:
        numbers = [name.partition(".")[0] for name in stored.files]
        return {
            target.rpartition(":")[2]: [stored[f"{n}.{i}"] for i in range(numbers.count(str(n)))]
            for n, (target, _) in enumerate(CASES)
        }


def run(args: Sequence[str], log: Path) -> None:
    with log.open("wb") as sink:
        script = Path(__file__).with_name("plain.py")
        done = subprocess.run([sys.executable, script, *args], stdout=sink, stderr=sink, check=False)
    assert done.returncode == 0, log.read_text(errors="replace")[-2000:]


@pytest.mark.parametrize(("target", "precision"), CASES[:5], ids=lambda case: case.rpartition(":")[2])
def test_production_outputs_are_those_of_a_plain_lowering(
    target: str, precision: str, recorded: Recorded, plain: Outputs
) -> None:
    recording = recorded(target, precision)
    results = [ref and recording.tensor(ref) for ref in recording.runs["htp"].results]
    expected = plain[target.rpartition(":")[2]]
    assert len(results) == len(expected)
    for result, array in zip(results, expected, strict=True):
        assert isinstance(result, np.ndarray)
        assert result.dtype == array.dtype
        assert np.array_equal(result, array)


def test_a_plain_lowering_misreads_channels_last_and_the_recording_does_not(
    recorded: Recorded, plain: Outputs
) -> None:
    recording = recorded("channels_last", "8a8w")
    (ref,) = recording.runs["htp"].results
    assert ref is not None
    assert np.array_equal(recording.tensor(ref), plain["contiguous"][0])
    assert not np.array_equal(plain["channels_last"][0], plain["contiguous"][0])

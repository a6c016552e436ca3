"""A recording can be read without torch, sent to someone, and opened by someone who does not trust it."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qnndbg.recording.store import Recording
from tests.emulator.conftest import NETS, ROOT, Recorded

TARGETS = [(f"{ROOT}/examples/mixed.py:mixed", "16a8w"), (f"{NETS}:fallback", "8a8w")]
# An environment without torch: importing it, or anything that brings it, is an error.
WITHOUT_TORCH = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "torchao", "executorch", "onnxruntime_qnn"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
from qnndbg.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def recording(recorded: Recorded) -> Recording:
    return recorded(*TARGETS[0])


def show(*args: str) -> str:
    command = [sys.executable, "-c", WITHOUT_TORCH, "show", *args]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_show_needs_no_torch(recording: Recording) -> None:
    report = " ".join(show(str(recording.folder)).split())
    comparison = recording.comparison()
    assert comparison is not None
    for text in ("mixed.py:mixed · 16a8w · SM8650", "Ladder", "hardswish", "13 of 13", "executorch 1."):
        assert text in report
    assert re.sub(r"\s", "", comparison.verdict.text) in report.replace(" ", "")


def test_json_needs_no_torch_and_has_the_promised_keys(recording: Recording) -> None:
    report: dict[str, Any] = json.loads(show(str(recording.folder), "--format", "json"))
    assert report.keys() >= {"verdict", "ladder", "layers", "coverage", "environment"}
    assert report["coverage"].keys() >= {"compared", "total", "reasons"}
    layers = report["layers"]
    assert all(
        layer.keys() >= {"tensor", "op", "module", "dtype", "accumulated", "local"} for layer in layers
    )
    errors = [layer[side] for layer in layers for side in ("accumulated", "local")]
    assert all(error.keys() >= {"sqnr_db", "max_lsb", "max_abs"} for error in errors)
    given = sum(bool(layer["given"]) and not layer["reason"] for layer in layers)  # which accumulate nothing
    numbers = 2 * report["coverage"]["compared"] + given
    counts = Counter(error["max_abs"] is None for error in errors)
    assert counts == {False: numbers, True: 2 * len(layers) - numbers}


def test_json_is_the_same_each_time(recording: Recording) -> None:
    assert show(str(recording.folder), "--format", "json") == show(str(recording.folder), "--format", "json")


@pytest.mark.parametrize(("target", "precision"), TARGETS, ids=["mixed", "fallback"])
def test_it_holds_data_only(target: str, precision: str, recorded: Recorded) -> None:
    """JSON, arrays that load without pickle, flatbuffers and text; nothing that runs on opening."""
    kinds: Counter[str] = Counter()
    for path in files(recorded(target, precision)):
        kinds[path.suffix] += 1
        if path.suffix == ".npy":
            np.load(path, mmap_mode=None, allow_pickle=False)
        elif path.suffix == ".pte":
            assert path.read_bytes()[4:6] == b"ET"  # a flatbuffer's identifier
        elif path.suffix != ".log":
            [json.loads(line) for line in documents(path)]
    assert kinds.keys() == {".json", ".jsonl", ".gz", ".npy", ".pte", ".log"}


@pytest.mark.parametrize(("target", "precision"), TARGETS, ids=["mixed", "fallback"])
def test_its_json_names_no_folder_of_this_machine(
    target: str, precision: str, recorded: Recorded, shared: Path
) -> None:
    recording = recorded(target, precision)
    # The folders of the recording, of the model, of the environment and of the user.
    folders = (shared, shared.resolve(), recording.folder, ROOT, Path(sys.prefix), Path.home(), Path.cwd())
    for path in files(recording):
        if path.suffix in {".json", ".jsonl", ".gz"}:
            for line in documents(path):
                assert not [folder for folder in folders if f"{folder}/".encode() in line], path.name
                assert not re.search(rb'"/\w+/', line), path.name


def files(recording: Recording) -> list[Path]:
    return [path for path in recording.folder.rglob("*") if path.is_file()]


def documents(path: Path) -> list[bytes]:
    """The JSON documents in a file."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return data.splitlines() if path.suffix == ".jsonl" else [data]

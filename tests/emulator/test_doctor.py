"""``qnndbg doctor`` and its probe, on the real libraries."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest

from qnndbg.cli.main import main
from qnndbg.errors import WorkerCrashedError
from qnndbg.execute.probe import JOB, TOLERANCE
from qnndbg.execute.sdk import HOST, LIBRARIES, find_sdk
from qnndbg.execute.worker import run_job


def test_probe_compiles_and_runs(tmp_path: Path) -> None:
    events: list[dict[str, object]] = []
    result: Any = run_job(JOB, {"sdk": None}, log=tmp_path / "log", on_event=events.append)
    # fp16 rounds the weights, so the emulator is close to torch's float32 and not equal to it.
    assert 0 < result["max_abs"] <= TOLERANCE
    assert [event["step"] for event in events] == ["load", "lower", "run"]
    assert str(events[1]["build_id"]).startswith("v2.")
    assert "Qnn" in (tmp_path / "log").read_text()  # the libraries' own noise


def test_doctor_where_all_works(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--format", "json"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    report = json.loads(out)
    assert report["ok"]
    assert {check["name"]: check["status"] for check in report["checks"]}["emulator"] == "ok"
    assert report["versions"]["executorch"] == importlib.metadata.version("executorch")
    assert report["versions"]["qnn"].startswith("v2.")
    assert report["sdk"] == {"root": str(find_sdk().root), "source": find_sdk().source}


def test_doctor_takes_an_explicit_sdk(capfd: pytest.CaptureFixture[str]) -> None:
    root = find_sdk().root
    assert main(["doctor", "--sdk", str(root)]) == 0
    out, err = capfd.readouterr()
    assert f"{root} (from --sdk)" in out
    assert out.endswith("models can be recorded here\n")
    assert err == ""


def test_doctor_on_libraries_that_are_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / HOST).mkdir(parents=True)
    for name in LIBRARIES:
        (tmp_path / HOST / name).write_text("an unfinished download")
    assert main(["doctor", "--sdk", str(tmp_path), "--format", "json"]) == 4
    report = json.loads(capfd.readouterr().out)
    (emulator,) = [check for check in report["checks"] if check["name"] == "emulator"]
    assert emulator["status"] == "failed"
    assert emulator["detail"].startswith("libQnnSystem.so cannot be loaded: ")
    assert emulator["remedy"] == f"reinstall the SDK in {tmp_path}"


def test_native_abort_is_contained(tmp_path: Path) -> None:
    # Loaded before torch, these libraries abort the process: the very thing that activate() avoids.
    first = str(find_sdk().lib / "libQnnHtp.so")
    with pytest.raises(WorkerCrashedError, match=r"killed by SIGABRT .*Pure virtual function called!"):
        run_job(JOB, {"sdk": None}, log=tmp_path / "log", env={"LD_PRELOAD": first})

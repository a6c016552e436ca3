"""Worker processes: real ones, that really abort, crash, hang and flood."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from qnndbg.errors import LoweringError, UsageError, WorkerCrashedError, WorkerFailedError
from qnndbg.execute.worker import run_job

# A stand-alone parent: runs a job that sleeps, and says which process that is.
PARENT = """
import sys
sys.path[:] = {path!r}
from pathlib import Path
from qnndbg.execute.worker import run_job
try:
    show = lambda event: print(event["pid"], flush=True)
    run_job("tests.unit.worker_jobs:sleep", {{}}, log=Path({log!r}), on_event=show)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "worker.log"


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def test_result_and_events_come_back_in_order(log: Path) -> None:
    events: list[dict[str, object]] = []
    payload = {"steps": ["export", "lower", "run"], "text": "ü\n", "number": 0.1}
    result: Any = run_job("tests.unit.worker_jobs:echo", payload, log=log, on_event=events.append)
    assert result.pop("pid") != os.getpid()
    assert result == {"payload": payload, "argv": [], "cwd": str(Path.cwd())}
    assert events == [{"step": "export"}, {"step": "lower"}, {"step": "run"}]
    assert log.read_bytes() == b""


def test_environment_is_added_to(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QNNDBG_TEST_INHERITED", "yes")
    job = "tests.unit.worker_jobs:environment"
    assert run_job(job, {"name": "QNNDBG_TEST_INHERITED"}, log=log, env={"OTHER": "x"}) == "yes"
    assert run_job(job, {"name": "OTHER"}, log=log, env={"OTHER": "x"}) == "x"


def test_all_output_goes_to_the_log_and_is_appended(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_job("tests.unit.worker_jobs:noisy", {}, log=log) == "quiet"
    once = "from sys.stdout\nfrom descriptor 1\nfrom descriptor 2\nfrom a process of its own\n"
    assert log.read_text() == once
    run_job("tests.unit.worker_jobs:noisy", {}, log=log)
    assert log.read_text() == once * 2
    assert capfd.readouterr() == ("", "")


def test_floods_of_output_and_events_do_not_block(log: Path) -> None:
    events: list[dict[str, object]] = []
    assert (
        run_job("tests.unit.worker_jobs:flood", {"lines": 20_000}, log=log, on_event=events.append) == 20_000
    )
    assert len(events) == 20_000
    assert log.stat().st_size == 20_000 * 100


def test_abort_names_the_signal_the_step_and_the_last_words(log: Path) -> None:
    words = "Assert failed: buffer too small\nnote: see above\n [####      ]  40%\r [########  ]  80%\n"
    with pytest.raises(WorkerCrashedError) as caught:
        run_job("tests.unit.worker_jobs:abort", {"words": words}, log=log)
    assert caught.value.fact == (
        "the worker process was killed by SIGABRT in step 'lower': Assert failed: buffer too small"
    )
    assert caught.value.hint == f"its output is in {log}"
    assert "worker_jobs.py" in log.read_text()  # the Python stack at the time


def test_last_words_are_those_of_this_worker(log: Path) -> None:
    log.parent.mkdir()
    log.write_text("error: of an earlier worker\nunknown custom config socModel 0\n")
    with pytest.raises(WorkerCrashedError) as caught:
        run_job("tests.unit.worker_jobs:leave_at_once", {"status": 3}, log=log)
    assert caught.value.fact == "the worker process ended with status 3"
    assert caught.value.hint == f"its output is in {log}"


def test_a_known_fault_brings_its_remedy(log: Path) -> None:
    words = "[ERROR]  <E> Failed to set scatter gather parameters: unknown custom config socModel 0\n"
    with pytest.raises(WorkerCrashedError) as caught:
        run_job("tests.unit.worker_jobs:abort", {"words": words}, log=log)
    assert caught.value.hint == "pip install onnxruntime-qnn==2.5.0"


def test_segmentation_fault(log: Path) -> None:
    with pytest.raises(WorkerCrashedError, match="was killed by SIGSEGV"):
        run_job("tests.unit.worker_jobs:segfault", {}, log=log)


def test_sigkill_hints_at_memory(log: Path) -> None:
    with pytest.raises(WorkerCrashedError, match="was killed by SIGKILL") as caught:
        run_job("tests.unit.worker_jobs:run_out_of_memory", {}, log=log)
    assert caught.value.hint.endswith("memory may have run out")


def test_our_errors_arrive_as_they_were_raised(log: Path) -> None:
    with pytest.raises(LoweringError) as caught:
        run_job("tests.unit.worker_jobs:raise_private", {"hint": "leave foo out"}, log=log)
    assert type(caught.value) is LoweringError  # the nearest class that both sides know
    assert (caught.value.fact, caught.value.hint) == ("aten.foo does not lower", "leave foo out")


@pytest.mark.parametrize(
    ("job", "fact"),
    [
        ("tests.unit.worker_jobs:raise_unexpected", "ValueError: not that"),
        (
            "tests.unit.worker_jobs:return_what_json_cannot_carry",
            "TypeError: Object of type object is not JSON",
        ),
        (
            "tests.unit.worker_jobs:no_such_job",
            "AttributeError: module 'tests.unit.worker_jobs' has no attribute",
        ),
        ("no_such_module:job", "ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_other_exceptions_are_our_bug(job: str, fact: str, log: Path) -> None:
    with pytest.raises(WorkerFailedError) as caught:
        run_job(job, {}, log=log)
    assert caught.value.fact.startswith(fact)
    assert "\n" not in caught.value.fact
    assert caught.value.hint == f"the traceback is in {log}"
    assert caught.value.exit_code == 70
    assert "Traceback (most recent call last):" in log.read_text()


@pytest.mark.parametrize("code", [0, 3, None, "enough"])
def test_sys_exit_is_an_error(code: object, log: Path) -> None:
    with pytest.raises(UsageError) as caught:
        run_job("tests.unit.worker_jobs:call_sys_exit", {"code": code}, log=log)
    assert caught.value.fact == f"the code under test ended its process: sys.exit({code!r})"


def test_payload_that_json_cannot_carry_starts_nothing(log: Path) -> None:
    with pytest.raises(TypeError):
        run_job("tests.unit.worker_jobs:echo", {"path": log}, log=log)
    assert not log.exists()


def test_processes_left_behind_end_with_the_job(log: Path) -> None:
    pid = run_job("tests.unit.worker_jobs:leave_something_running", {}, log=log)
    assert isinstance(pid, int)
    assert gone(pid)


def test_a_process_that_holds_the_pipe_open_hides_no_crash(log: Path) -> None:
    with pytest.raises(WorkerCrashedError, match="ended with status 7"):
        run_job("tests.unit.worker_jobs:leave_with_a_child_that_holds_the_pipe", {}, log=log)


def test_an_error_in_the_event_handler_ends_the_worker(log: Path) -> None:
    pids: list[object] = []

    def refuse(event: dict[str, object]) -> None:
        pids.append(event["pid"])
        raise LookupError("no more of this")

    with pytest.raises(LookupError, match="no more of this"):
        run_job("tests.unit.worker_jobs:sleep", {}, log=log, on_event=refuse)
    (pid,) = pids
    assert isinstance(pid, int)
    assert gone(pid)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_worker_does_not_outlive_its_parent(number: int, status: int, log: Path) -> None:
    script = PARENT.format(path=sys.path, log=str(log))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.send_signal(number)
        assert parent.wait(10) == status
        assert gone(pid)

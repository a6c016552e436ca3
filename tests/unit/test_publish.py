"""What becomes of a recording when its making ends, well or not."""

from __future__ import annotations

import errno
import gc
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from qnndbg.errors import LoweringError, SdkError, UsageError, WorkerCrashedError
from qnndbg.model.recording import Failure, Manifest
from qnndbg.pipeline.publish import Hints, begin, free_place, keep, publish, shown_argument, shown_target
from qnndbg.recording.place import partial
from qnndbg.recording.store import open_recording
from qnndbg.recording.writer import Writer
from tests.unit.recordings import manifest

PLACE = Path("net.qnndbg")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def begun(*, complete: bool = False) -> Writer:
    writer = begin(PLACE, manifest(complete=complete))
    writer.program("htp", b"new")
    return writer


def old() -> Manifest:
    """A complete recording in the same place."""
    Writer(PLACE).program("htp", b"old")
    Writer(PLACE).manifest(manifest("8a8w", complete=True))
    return open_recording(PLACE).manifest


def names() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def program(place: Path) -> bytes:
    return (place / "programs" / "htp.pte").read_bytes()


def test_a_recording_begins_afresh_and_out_of_sight() -> None:
    begun().log("worker").write_text("of a try that was killed")
    writer = begin(PLACE, manifest())
    assert names() == [".net.qnndbg.partial"]
    assert [path.name for path in writer.folder.iterdir()] == ["manifest.json"]


def test_a_finished_recording_takes_its_place_and_that_of_an_older_one() -> None:
    begun()
    assert publish(PLACE).folder == PLACE
    begun(complete=True)
    assert names() == [".net.qnndbg.partial", "net.qnndbg"]
    assert publish(PLACE).manifest.complete
    assert names() == ["net.qnndbg"]


def test_a_failure_is_kept_with_what_it_says() -> None:
    begun()
    error = keep(PLACE, "lower", LoweringError("it does not lower", "change it"))
    assert isinstance(error, LoweringError)
    assert (error.fact, error.hint) == (
        "it does not lower",
        "change it; what was captured: qnndbg show net.qnndbg",
    )
    failure = Failure(step="lower", error="it does not lower", hint="change it", exit_code=4)
    recording = open_recording(PLACE)
    assert (recording.manifest.failure, recording.manifest.complete) == (failure, False)
    assert (names(), program(PLACE)) == (["net.qnndbg"], b"new")


def test_a_failure_takes_the_place_of_a_failure_and_not_of_an_answer() -> None:
    kept = old()
    for _ in range(2):
        begun()
        error = keep(PLACE, "lower", SdkError("no"))
        assert isinstance(error, SdkError)
        assert error.hint.endswith("qnndbg show net-failed.qnndbg")
        assert names() == ["net-failed.qnndbg", "net.qnndbg"]
    assert (open_recording(PLACE).manifest, program(PLACE)) == (kept, b"old")


def test_hints_lead_to_where_the_recording_is_now(here: Path) -> None:
    writer = begun()
    hint = f"see {writer.log('worker').absolute()} and {writer.log('worker')}"
    error = keep(PLACE, "lower", LoweringError("no", hint))
    assert isinstance(error, LoweringError)
    assert error.hint.startswith("see net.qnndbg/logs/worker.log and net.qnndbg/logs/worker.log; ")
    failure = open_recording(PLACE).manifest.failure
    assert failure is not None
    assert failure.hint == "see logs/worker.log and logs/worker.log"


def test_what_qnn_said_is_part_of_the_fact() -> None:
    said = '[ERROR] [Qnn ExecuTorch]:  <E> "aten_permute_0" rank 6 is too large\n'
    begun().log("worker").write_text(said)
    error = keep(PLACE, "lower", LoweringError("lowering failed"))
    assert isinstance(error, LoweringError)
    assert error.fact == 'lowering failed; QNN says: "aten_permute_0" rank 6 is too large'


def test_an_interruption_is_kept_and_stays_one() -> None:
    begun()
    error = keep(PLACE, "lower", KeyboardInterrupt())
    assert isinstance(error, KeyboardInterrupt)
    assert str(error) == "what was captured: qnndbg show net.qnndbg"
    assert open_recording(PLACE).manifest.failure == Failure(step="lower", error="interrupted", exit_code=130)


def test_a_place_is_named_as_a_shell_takes_it() -> None:
    place = Path("my net's ü.qnndbg")
    begin(place, manifest())
    error = keep(place, "lower", LoweringError("it does not lower", "change it"))
    assert isinstance(error, LoweringError)
    command = error.hint.partition("; what was captured: ")[2]
    assert shlex.split(command) == ["qnndbg", "show", "my net's ü.qnndbg"]
    assert place.exists()


def test_what_was_captured_is_kept_where_a_full_disk_takes_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Writer, **fields: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    begun()
    monkeypatch.setattr(Writer, "update_manifest", full)
    with pytest.raises(OSError, match="No space left on device"):
        keep(PLACE, "lower", LoweringError("it does not lower", "change it"))
    assert (names(), program(PLACE)) == (["net.qnndbg"], b"new")


def test_an_exception_of_the_callers_own_goes_through() -> None:
    begun()
    error = ValueError("theirs")
    assert keep(PLACE, "lower", error) is error
    failure = open_recording(PLACE).manifest.failure
    assert failure is not None
    assert failure.error == "ValueError: theirs"


def test_a_link_is_not_replaced() -> None:
    old()
    Path("link.qnndbg").symlink_to(PLACE, target_is_directory=True)
    with pytest.raises(UsageError, match="is a link"):
        free_place(Path("link"), force=True)


def test_a_place_that_is_free_may_be_deep_down() -> None:
    assert free_place(Path("a/b/net"), force=False) == Path("a/b/net.qnndbg")
    begin(Path("a/b/net.qnndbg"), manifest())
    assert partial(Path("a/b/net.qnndbg")).is_dir()


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("/home/me/net.py:make", "net.py:make"),
        ("../lower.py", "lower.py"),
        ("package.module:make", "package.module:make"),
        ("example:digits", "example:digits"),
    ],
)
def test_targets_are_shown_without_folders(target: str, shown: str) -> None:
    assert shown_target(target) == shown


def test_arguments_are_shown_without_folders_of_the_machine() -> None:
    given = ["cnn", "data/cnn set", "--data=/home/me/set", "/tmp/out.pte", "~/x", "-n=3"]
    assert [*map(shown_argument, given)] == ["cnn", "data/cnn set", "--data=set", "out.pte", "x", "-n=3"]


def test_one_place_is_recorded_to_by_one_at_a_time() -> None:
    first = begin(PLACE, manifest())
    with pytest.raises(UsageError, match=r"another process is recording to net\.qnndbg") as caught:
        begin(PLACE, manifest("8a8w"))
    assert "choose another place" in caught.value.hint
    assert (names(), first.read_manifest().precision) == ([".net.qnndbg.partial"], "fp16")


def test_a_process_of_its_own_is_kept_out_until_the_first_one_ends() -> None:
    first = begin(PLACE, manifest())
    program = (
        "from pathlib import Path; from qnndbg.pipeline.publish import begin; "
        "from tests.unit.recordings import manifest; begin(Path('net.qnndbg'), manifest())"
    )

    def other() -> str:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False
        )
        return done.stderr.strip().rpartition("\n")[2]

    assert "UsageError: another process is recording to net.qnndbg" in other()
    del first
    gc.collect()
    assert other() == ""
    assert begin(PLACE, manifest()).folder.is_dir()  # what it left, ended as it is, is in nobody's way


def test_the_worker_log_of_another_recording_is_named_where_that_one_goes() -> None:
    second = Path("net-2.qnndbg")
    first_writer, second_writer = begun(), begin(second, manifest())
    hint = f"its output is in {first_writer.log('worker')}"
    for folder in (PLACE, second):
        error = keep(folder, "script", WorkerCrashedError("killed", hint), log_of=PLACE)
    assert isinstance(error, WorkerCrashedError)
    assert error.hint == (
        "its output is in net.qnndbg/logs/worker.log; what was captured: qnndbg show net-2.qnndbg"
    )
    hints = [open_recording(folder).manifest.failure for folder in (PLACE, second)]
    assert [failure and failure.hint for failure in hints] == [
        "its output is in logs/worker.log",
        "its output is in net.qnndbg/logs/worker.log",
    ]
    assert second_writer.folder == partial(second)


def test_a_failed_pass_says_more_than_the_exception_that_came_out() -> None:
    begun()
    error = RuntimeError("An error occurred when running the 'A' pass after the following passes: ...")
    assert keep(PLACE, "lower", error, reason=("the pass A failed", "look")) is error
    assert open_recording(PLACE).manifest.failure == Failure(
        step="lower", error="the pass A failed", hint="look"
    )


def test_what_is_in_the_way_is_said_in_the_callers_own_terms() -> None:
    old()
    with pytest.raises(UsageError, match="exists") as caught:
        free_place(PLACE, force=False, hints=Hints("force=True", "path"))
    assert caught.value.hint == "replace it with force=True, or choose another place with path"


def test_of_many_that_begin_at_once_one_does() -> None:
    Writer(partial(PLACE)).manifest(manifest("8a8w"))  # of a process that was killed
    program = (
        "import sys; from pathlib import Path; from qnndbg.pipeline.publish import begin; "
        "from tests.unit.recordings import manifest; sys.stdin.readline()\n"
        "writer = begin(Path('net.qnndbg'), manifest()); print('begun', flush=True); sys.stdin.readline()"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program]
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(command, env=env, text=True, stdin=pipe, stdout=pipe, stderr=pipe) for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    # All wait for a second line, but those that were refused; the end of input is one.
    refused = [process for process in processes if process.stdout and not process.stdout.readline()]
    ends = [process.communicate()[1] for process in processes]
    assert len(refused) == 3
    assert sum("another process is recording to net.qnndbg" in end for end in ends) == 3
    assert names() == [".net.qnndbg.partial"]
    assert partial(PLACE).stat().st_mode == logs_of(partial(PLACE)).stat().st_mode  # as the umask says


def logs_of(folder: Path) -> Path:
    """A folder in it that was made in the usual way."""
    return Writer(folder).log("worker").parent

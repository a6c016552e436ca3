"""The entry point: how errors look and which exit codes they have."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from qnndbg import __version__
from qnndbg.cli import Subparsers
from qnndbg.cli import main as entry
from qnndbg.errors import LoweringError, NothingComparedError, RecordingError, WorkerFailedError


@pytest.fixture
def run_verb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], int]], int]:
    """Call a function as the verb ``act`` of the command line."""

    def call(action: Callable[[], int]) -> int:
        verb = ModuleType("qnndbg.cli.act")
        verb.__dict__.update(add_parser=add_parser, run=lambda args: action())
        monkeypatch.setitem(sys.modules, verb.__name__, verb)
        monkeypatch.setattr(entry, "VERBS", ("act",))
        return entry.main(["act"])

    def add_parser(subparsers: Subparsers) -> None:
        subparsers.add_parser("act").add_argument("--number", type=int)

    return call


def raising(error: BaseException) -> Callable[[], int]:
    def action() -> int:
        raise error

    return action


@pytest.mark.parametrize("code", [0, 1])
def test_exit_code_is_the_verbs(code: int, run_verb: Callable[[Callable[[], int]], int]) -> None:
    assert run_verb(lambda: code) == code


@pytest.mark.parametrize(
    ("error", "code", "stderr"),
    [
        (RecordingError("x is truncated", "record again"), 3, "x is truncated\nhint: record again\n"),
        (LoweringError("foo does not lower"), 4, "foo does not lower\n"),
        (NothingComparedError("no tensor matches"), 5, "no tensor matches\n"),
        (WorkerFailedError("ValueError: no", "see log"), 70, "ValueError: no\nhint: see log\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "a/b"),
            2,
            "a/b: No space left on device\nhint: free some space and try again\n",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),  # as a write has it
            2,
            "No space left on device\nhint: free some space and try again\n",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "a"),
            2,
            "a: Permission denied\nhint: check the path and its permissions\n",
        ),
    ],
)
def test_errors_are_a_fact_and_a_hint(
    error: BaseException,
    code: int,
    stderr: str,
    run_verb: Callable[[Callable[[], int]], int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_verb(raising(error)) == code
    assert capsys.readouterr() == ("", f"qnndbg: error: {stderr}")


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("by zero"), FileNotFoundError(errno.ENOENT, "none", "x")]
)
def test_what_no_one_expected_is_a_bug(
    error: Exception, run_verb: Callable[[Callable[[], int]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_verb(raising(error)) == 70
    stderr = capsys.readouterr().err
    assert stderr.startswith("Traceback (most recent call last):")
    assert "qnndbg: error: this is a bug in qnndbg\nhint: report it with the traceback" in stderr


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        ([], "qnndbg --help"),
        (["no-such-verb"], "qnndbg --help"),
        (["doctor", "--format", "xml"], "qnndbg doctor --help"),
        (["doctor", "more"], "qnndbg --help"),
    ],
)
def test_usage_errors(argv: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("qnndbg: error: ")
    assert err.endswith(f"\nhint: {hint}\n")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        entry.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"qnndbg {__version__}\n"


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        entry.main(["--help"])
    out = capsys.readouterr().out
    assert all(f"\n    {verb} " in out for verb in entry.VERBS)


def test_a_verb_loads_no_other() -> None:
    script = (
        "import sys; from qnndbg.cli.main import main; code = main(['doctor', '--sdk', '/nowhere'])\n"
        "loaded = {'qnndbg.cli.record', 'qnndbg.cli.show', 'torch', 'pandas'} & set(sys.modules)\n"
        "sys.exit(f'loaded {loaded}' if loaded else code)\n"
    )
    assert (
        subprocess.run([sys.executable, "-c", script], stdout=subprocess.DEVNULL, check=False).returncode == 4
    )


@pytest.mark.parametrize("format_", ["text", "json"])
def test_reader_that_goes_away_is_no_error(format_: str) -> None:
    command = [sys.executable, "-m", "qnndbg", "doctor", "--sdk", "/nowhere", "--format", format_]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141

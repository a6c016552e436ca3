"""What a request to record is refused for, before any worker starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from qnndbg.cli.main import main
from qnndbg.cli.record import split
from qnndbg.errors import SdkError, UsageError
from qnndbg.model.recording import Failure
from qnndbg.pipeline.record import Request, check_target, default_output, record, record_script
from qnndbg.recording.writer import Writer
from tests.unit.recordings import manifest

FORMS = "file.py:factory, package.module:factory or example:NAME"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder that holds one script."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text("raise SystemExit('a request must not run this')\n")
    return tmp_path


def attempt(output: str | None, *, target: str = "net.py:make", force: bool = False) -> None:
    """Ask for a recording with an SDK that is none, which ends whatever would have been started."""
    place = None if output is None else Path(output)
    record(Request(target=target, output=place, force=force, sdk="no-sdk"), lambda _event: None)


def recording(name: str, *, complete: bool = True) -> Path:
    failure = None if complete else Failure(step="lower", error="no")
    writer = Writer(Path(name))
    writer.manifest(manifest(complete=complete, failure=failure))
    return writer.folder


def listing(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.parametrize("target", ["", "net", "net.py", ":make", "net.py:", ":", "example:", "-x"])
def test_what_is_no_target(target: str) -> None:
    with pytest.raises(UsageError, match="is not a target") as caught:
        check_target(target)
    assert FORMS in caught.value.hint


@pytest.mark.parametrize("target", ["net.py:make", "package.module:make", "example:digits", "./net.py:make"])
def test_what_is_a_target(target: str) -> None:
    check_target(target)


@pytest.mark.parametrize("target", ["missing.py:make", "folder.py:make"])
def test_script_that_is_not_there(here: Path, target: str) -> None:
    (here / "folder.py").mkdir()
    with pytest.raises(UsageError, match=f"there is no file {target.partition(':')[0]}"):
        check_target(target)


@pytest.mark.parametrize(
    ("target", "precision", "output"),
    [
        ("net.py:make", "fp16", "make-fp16.qnndbg"),
        ("some/where/net.py:make", "16a8w", "make-16a8w.qnndbg"),
        ("package.module:make", "16a4w_block", "make-16a4w_block.qnndbg"),
        ("example:digits", "8a8w", "digits-8a8w.qnndbg"),
        ("net.py:Maker.make it", "fp16", "Maker.make_it-fp16.qnndbg"),
    ],
)
def test_recording_is_named_after_target_and_precision(target: str, precision: str, output: str) -> None:
    assert default_output(Request(target=target, precision=precision)) == Path(output)


@pytest.mark.parametrize("script", ["lower.py", "some/where/lower.py"])
def test_recording_of_a_script_is_named_after_it(script: str) -> None:
    assert default_output(Request(target=script, arguments=("--out", "x"))) == Path("lower.qnndbg")


@pytest.mark.parametrize(
    ("line", "ours", "script"),
    [
        ("record a.py", "record a.py", ""),
        ("record a.py x -o y --force", "record a.py", "x -o y --force"),
        ("record -o out -q a.py --sdk s", "record -o out -q a.py", "--sdk s"),
        ("record -o a.py b.py c.py", "record -o a.py b.py", "c.py"),
        ("record --output=o.qnndbg --sdk s a.py a.py", "record --output=o.qnndbg --sdk s a.py", "a.py"),
        ("record a.py -- x", "record a.py", "-- x"),
        ("record a.py:make -o b", "record a.py:make -o b", ""),
        ("record example:digits --precision 8a8w", "record example:digits --precision 8a8w", ""),
        ("record --precision 8a8w a.py:make -q", "record --precision 8a8w a.py:make -q", ""),
        ("record", "record", ""),
        ("record -q", "record -q", ""),
    ],
)
def test_what_stands_behind_a_script_is_the_scripts(line: str, ours: str, script: str) -> None:
    taken, arguments = split(line.split())
    assert (list(taken), list(arguments)) == (ours.split(), script.split())


def test_script_that_is_not_there_is_refused(here: Path) -> None:
    (here / "folder.py").mkdir()
    before = listing(here)
    for script in ("missing.py", "folder.py"):
        with pytest.raises(UsageError, match=f"there is no file {script}"):
            record_script(Request(target=script, arguments=(), sdk="no-sdk"), lambda _event: None)
    with pytest.raises(SdkError, match="no-sdk"):
        record_script(Request(target="net.py", arguments=(), sdk="no-sdk"), lambda _event: None)
    assert listing(here) == before


@pytest.mark.parametrize("option", ["--precision", "--soc"])
def test_script_says_itself_what_it_lowers_to(
    here: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = listing(here)
    assert main(["record", option, "8a8w", "net.py", option, "fp16"]) == 2
    assert "a script says itself which precision and SoC it lowers to" in capsys.readouterr().err
    assert listing(here) == before


@pytest.mark.parametrize("output", [None, "new", "new.qnndbg", "deep/down/new", "dotted.name"])
def test_place_that_is_free_is_taken_only_when_there_is_an_sdk(here: Path, output: str | None) -> None:
    before = listing(here)
    with pytest.raises(SdkError, match="no-sdk"):
        attempt(output)
    assert listing(here) == before


@pytest.mark.parametrize("force", [False, True])
def test_target_is_checked_before_anything_else(here: Path, force: bool) -> None:
    recording("old.qnndbg")
    with pytest.raises(UsageError, match="is not a target"):
        attempt("old", target="nonsense", force=force)


@pytest.mark.parametrize("output", ["old", "old.qnndbg", "./old.qnndbg"])
def test_recording_is_not_replaced_unless_it_is_asked_for(here: Path, output: str) -> None:
    recording("old.qnndbg")
    before = listing(here)
    with pytest.raises(UsageError, match=r"old\.qnndbg exists") as caught:
        attempt(output)
    assert "--force" in caught.value.hint
    with pytest.raises(SdkError):
        attempt(output, force=True)
    assert listing(here) == before


def test_recording_by_its_default_name_is_not_replaced_either() -> None:
    recording("make-fp16.qnndbg")
    with pytest.raises(UsageError, match=r"make-fp16\.qnndbg exists"):
        attempt(None)


def test_recording_that_failed_makes_room_for_the_next() -> None:
    recording("old.qnndbg", complete=False)
    with pytest.raises(SdkError):
        attempt("old")
    assert Path("old.qnndbg/manifest.json").is_file()


def test_damaged_recording_is_not_replaced_unless_it_is_asked_for() -> None:
    (recording("old.qnndbg") / "manifest.json").write_text("{")
    with pytest.raises(UsageError, match="exists"):
        attempt("old")
    with pytest.raises(SdkError):
        attempt("old", force=True)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("folder", [True, False])
def test_what_is_no_recording_is_never_replaced(here: Path, force: bool, folder: bool) -> None:
    if folder:
        (here / "photos.qnndbg").mkdir()
        (here / "photos.qnndbg" / "holiday.jpg").write_bytes(b"irreplaceable")
    else:
        (here / "photos.qnndbg").write_bytes(b"irreplaceable")
    before = listing(here)
    with pytest.raises(UsageError, match="exists and is no recording"):
        attempt("photos", force=force)
    assert listing(here) == before


@pytest.mark.parametrize("output", [".", "/"])
def test_place_without_a_name_of_its_own_is_refused(output: str) -> None:
    with pytest.raises(UsageError):
        attempt(output)

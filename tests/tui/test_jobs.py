"""Long jobs: commands that run beside the screen, in processes of their own."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.widgets import Input

from qnndbg.recording.store import open_recording
from qnndbg.recording.writer import Writer
from qnndbg.tui import browser, job_words
from qnndbg.tui.jobs import Job
from qnndbg.tui.places import FindingAt, LayerAt, NodeAt, PageAt, PassAt, TensorAt
from qnndbg.tui.state import Session
from tests.tui.conftest import Drive, Driver
from tests.tui.recorded import make


@pytest.fixture
def session(folder: Path) -> Session:
    return Session(open_recording(folder))


def instead(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Run a Python program in the place of qnndbg, which would load torch and lower a model."""
    real = subprocess.Popen

    def popen(words: list[str], **options: object) -> subprocess.Popen[bytes]:
        return real([sys.executable, "-c", code, *words[3:]], **options)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(subprocess, "Popen", popen)


def ended(job: Job) -> Job:
    limit = time.monotonic() + 60
    while job.running and time.monotonic() < limit:
        job.poll()
        time.sleep(0.02)
    assert not job.running
    return job


async def until(ui: Driver, text: str) -> None:
    """Wait until a text is on the screen, or was said."""
    for _ in range(100):
        await ui.settle()
        if text in ui.text() or (ui.app.told is not None and text in ui.app.told.plain):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{text!r} is not there:\n{ui.text()}")


EVENTS = """
import sys
print('{"step": "lower", "text": "lower"}', file=sys.stderr)
print('{"pass": "A", "stage": "edge"}\\n{"pass": "B", "stage": "edge"}', file=sys.stderr)
print('{"step": "compare", "text": "compare"}\\n{not json}', file=sys.stderr)
print(f'{{"wrote": "{sys.argv[-1]}"}}', file=sys.stderr)
sys.stderr.write("no newline at the end")
"""
WAITS = """
import sys, time
try:
    print('{"step": "lower", "text": "lower"}', file=sys.stderr, flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print('qnndbg: error: interrupted', file=sys.stderr)
    print(f"hint: what was captured: qnndbg show '{sys.argv[-1]}'", file=sys.stderr)
    sys.exit(130)
"""


def test_what_a_job_says_is_read_to_its_last_byte(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead(monkeypatch, EVENTS)
    job = Job(("record", str(tmp_path)), session)
    job.start()
    ended(job)
    assert [(step.text, step.passes) for step in job.steps] == [("lower", 2), ("compare", 0)]
    assert all(step.ended is not None for step in job.steps)
    assert job.said == ["{not json}", "no newline at the end"]
    assert (job.state, job.left) == ("done", tmp_path)


def test_a_cancelled_job_is_interrupted_and_names_what_it_kept(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead(monkeypatch, WAITS)
    job = Job(("record", str(tmp_path)), session)
    job.start()
    while not job.steps:
        job.poll()
    job.cancel()
    assert job.state == "cancelling"
    assert ended(job).state == "cancelled"
    assert job.left == tmp_path


def test_the_tool_itself_says_what_is_wrong_and_what_helps(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("R")
        assert "qnndbg record" in ui.lines()[-2]
        await ui.press("ctrl+u", "ctrl+k")
        await ui.type("missing.py")
        await ui.press("enter")
        assert ui.lines()[0].startswith(" Overview › Jobs")
        await until(ui, "failed, exit code 2")
        assert "qnndbg: error: there is no file missing.py" in ui.text()
        assert "hint:" in ui.text()
        await ui.press("enter")
        await until(ui, "it left nothing to open")

    drive(script)


def test_a_new_recording_opens_beside_the_old_one(
    drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead(monkeypatch, EVENTS)
    again = make(tmp_path / "again.qnndbg")

    async def script(ui: Driver) -> None:
        ui.app.start("record", str(again))
        await until(ui, "B again.qnndbg")
        assert ui.lines()[0].startswith(" Overview ")
        await ui.press("6")
        assert "Diff" in ui.lines()[0]

    drive(script, size=(100, 24))


def test_a_job_is_cancelled_with_a_key_and_goes_on_meanwhile(
    drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead(monkeypatch, WAITS)

    async def script(ui: Driver) -> None:
        ui.app.start("record", str(tmp_path))
        await until(ui, "record: lower · X cancels it")
        await ui.press("3")
        assert "◌ record: lower · 7" in ui.lines()[0]
        ui.app.start("bisect", "")
        assert len(ui.app.jobs) == 1  # one at a time
        await ui.press("q")
        assert ui.app.is_running  # it says first that a job runs
        await ui.press("7", "X")
        await until(ui, "cancelled")

    drive(script)


def test_a_search_lists_its_graphs_and_leads_to_the_pass(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = '"position": 40, "stage": "export", "name": "P", "partition": null, "sqnr_db": 12.5'
    code = f'import sys; print(\'{{"probe": {{{probe}}}, "left": 0}}\\n{{"found": {{{probe}}}}}\')'
    instead(monkeypatch, code)

    async def script(ui: Driver) -> None:
        await ui.press("B", "enter")
        await until(ui, "12.5 dB  export P  ◄ the first that is wrong")
        await ui.press("j", "enter")
        assert "Passes" in ui.lines()[0]

    drive(script)


def test_a_search_begins_at_the_output_under_the_cursor(drive: Drive) -> None:
    async def script(ui: Driver) -> None:
        await ui.press("B")
        assert "qnndbg bisect --output 0" in ui.lines()[-2]

    drive(script)


def test_the_target_is_looked_for_beside_the_source(session: Session, folder: Path) -> None:
    assert job_words._target("net.py:make", folder.parent) == f"{folder.parent / 'net.py'}:make"
    assert job_words._target("example:digits", folder.parent) == "example:digits"
    assert job_words.command("record", "'a b.py' --x", session) == ("record", "a b.py", "--x")


def test_a_script_is_recorded_again_with_its_arguments(drive: Drive, folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "lower.qnndbg"))
    writer = Writer(copy)
    given = replace(writer.read_manifest(), target="lower.py", arguments=("my net", "--fast"), precision="")
    writer.manifest(given)

    async def script(ui: Driver) -> None:
        await ui.press("R")
        assert ui.app.screen.query_one("#answer", Input).value.endswith(" lower.py 'my net' --fast")

    drive(script, recording=open_recording(copy))


def test_a_place_has_an_anchor_in_the_report(session: Session) -> None:
    key = list(session.layers)[3]
    assert browser.anchor(session, key) == "layer-3"
    assert browser.anchor(session, TensorAt("x", (), key)) == "layer-3"
    assert browser.anchor(session, NodeAt(key.tensor)) == "layer-3"
    assert browser.anchor(session, LayerAt("forward", 0, "unknown")) == ""
    assert [browser.anchor(session, place) for place in (PassAt(1), FindingAt(0), PageAt("graph"), None)] == [
        "passes",
        "findings",
        "graphs",
        "",
    ]


def test_no_browser_is_opened_where_nobody_would_see_it() -> None:
    assert browser.has_display({"DISPLAY": ":0"}, "linux")
    assert not browser.has_display({}, "linux")
    assert browser.has_display({}, "darwin")
    assert not browser.has_display({"DISPLAY": ":0", "SSH_CONNECTION": "a b"}, "linux")
    assert browser.has_display({"SSH_CONNECTION": "a b", "BROWSER": "code"}, "linux")


def test_the_report_opens_at_the_layer(drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "seen"
    monkeypatch.setenv(
        "BROWSER", f'{sys.executable} -c \'import sys; open("{seen}", "w").write(sys.argv[1])\' %s'
    )

    async def script(ui: Driver) -> None:
        await ui.press("enter", "O")
        await until(ui, "opened ")
        url = seen.read_text(encoding="utf-8")
        path, _, anchor = url.removeprefix("file://").partition("#")
        assert anchor == "layer-1"
        assert "<html" in Path(path).read_text(encoding="utf-8")

    drive(script)


def test_without_a_browser_the_address_is_said(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BROWSER", raising=False)
    monkeypatch.setenv("SSH_CONNECTION", "a 1 b 2")

    async def script(ui: Driver) -> None:
        await ui.press("5", "O")
        await until(ui, "no browser can be opened here")
        assert ui.app.clipboard.startswith("file://")
        assert ui.app.clipboard.endswith("net.html#layer-1")  # what the finding is about

    drive(script)

"""``qnndbg check`` as it is called on recordings: exit codes, files, and what it refuses."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path

import pytest

from qnndbg.cli.check import VALUED, add_parser, split
from qnndbg.cli.main import main
from qnndbg.cli.report_file import FORMATS
from qnndbg.model.baseline import BASELINE_SCHEMA_VERSION
from qnndbg.model.recording import Failure
from tests.unit.test_triage import of, recorded


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A good recording and a bad one in the current folder."""
    recorded(tmp_path / "net.qnndbg", of(1.0))
    recorded(tmp_path / "bad.qnndbg", of(9.0), scale=0.9, htp=20.0)
    monkeypatch.chdir(tmp_path)


def test_baseline_is_made_and_then_held_against(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "net.qnndbg", "--update"]) == 0
    assert capsys.readouterr().err == "wrote snapshots/net.baseline\n"
    assert main(["check", "net.qnndbg"]) == 0
    assert capsys.readouterr().out.startswith("✓ passed: 2 unchanged\n")
    assert main(["check", "bad.qnndbg", "--baseline", "snapshots/net"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("✗ regressed: 2 regressed\n")
    assert "blamed on Fold (transform)" in out


def test_update_shows_what_it_accepts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "net.qnndbg", "--update"]) == 0
    assert main(["check", "bad.qnndbg", "--baseline", "snapshots/net", "--update"]) == 0
    out, err = capsys.readouterr()
    assert "output 0: 40.0 → 20.0 dB" in out
    assert err.endswith("accepted snapshots/net.baseline\n")
    assert main(["check", "bad.qnndbg", "--baseline", "snapshots/net"]) == 0


def test_recording_may_be_the_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "bad.qnndbg", "--baseline", "net.qnndbg", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["passed"], found["counts"]["regressed"]) == (1, False, 2)
    assert found["judgements"][1]["blame"]["by"] == "Fold (transform)"


def test_policy_of_the_folder_and_another_one() -> None:
    Path("qnndbg.toml").write_text("[limits]\nexcess = 10\ndrop_db = 30")
    assert main(["check", "bad.qnndbg", "--baseline", "net.qnndbg"]) == 0
    Path("strict.toml").write_text("[limits]\nexcess = 0.5")
    assert main(["check", "net.qnndbg", "--no-baseline", "--policy", "strict.toml"]) == 1
    assert main(["check", "net.qnndbg", "--no-baseline"]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["net.qnndbg"], 2, "there is no baseline snapshots/net.baseline"),
        (["none.qnndbg", "--no-baseline"], 3, "there is no recording none.qnndbg"),
        (["script.py"], 2, "there is no baseline snapshots/script.baseline"),
        (
            ["script.py", "--update"],
            2,
            "as in: qnndbg check --update --baseline snapshots/script.baseline script.py",
        ),
        (["--no-baseline", "script.py"], 2, "there is no file script.py"),
        (["--precision", "8a8w", "--no-baseline", "script.py"], 2, "leave out --precision and --soc"),
        (["net.qnndbg", "--no-baseline", "-o", "x.qnndbg"], 2, "here none is made"),
        (["net.qnndbg", "--no-baseline", "--report", "net.qnndbg/x"], 2, "is inside the recording"),
        (["net.qnndbg", "--no-baseline", "--report", "none/x"], 2, "there is no folder none"),
        (["net.qnndbg", "--no-baseline", "--update"], 2, "leave one of them out"),
        (["net.qnndbg", "--no-baseline", "--policy", "x.toml"], 2, "x.toml cannot be read"),
    ],
)
def test_refused(arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *arguments]) == code
    assert words in capsys.readouterr().err
    assert not Path("snapshots").exists()


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_goes_to_stdout_and_to_a_file(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["check", "bad.qnndbg", "--baseline", "net.qnndbg", "--format", form]
    assert main([*call]) == 1
    printed = capsys.readouterr()
    assert printed.err == ""
    for name in ("one", "two"):
        assert main([*call, "--report", name]) == 1
    assert capsys.readouterr() == ("", "wrote one\nwrote two\n")
    assert Path("one").read_bytes() == Path("two").read_bytes()
    if form != "text":
        assert Path("one").read_text(encoding="utf-8") == printed.out


@pytest.mark.parametrize(
    ("line", "ours", "script"),
    [
        ("check a.py", "check a.py", ""),
        ("check --baseline b.py -q a.py --update x.py", "check --baseline b.py -q a.py", "--update x.py"),
        ("check --format json --report r.json a.py -o y", "check --format json --report r.json a.py", "-o y"),
        ("check --update a.py", "check --update a.py", ""),
        ("check a.py:make --update", "check a.py:make --update", ""),
        ("check net.qnndbg --policy p.py", "check net.qnndbg --policy p.py", ""),
    ],
)
def test_what_stands_behind_a_script_is_the_scripts(line: str, ours: str, script: str) -> None:
    taken, arguments = split(line.split())
    assert (list(taken), list(arguments)) == (ours.split(), script.split())


def test_every_option_with_a_value_is_known_to_be_one() -> None:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    (verbs,) = (action for action in parser._actions if action.choices)
    check = verbs.choices["check"]  # type: ignore[index]
    valued = {word for action in check._actions if action.nargs is None for word in action.option_strings}
    assert valued == set(VALUED)


def older(folder: Path) -> None:
    """Make a baseline one of the schema before."""
    front = folder / "baseline.json"
    page = json.loads(front.read_text(encoding="utf-8"))
    front.write_text(json.dumps(page | {"schema": page["schema"] - 1}), encoding="utf-8")


@pytest.mark.parametrize("verb", [["check", "net.qnndbg"], ["diff", "snapshots/net.baseline", "net.qnndbg"]])
def test_baseline_of_an_older_schema_is_refused_and_the_hint_renews_it(
    verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "net.qnndbg", "--update"]) == 0
    older(Path("snapshots/net.baseline"))
    capsys.readouterr()
    assert main(verb) == 3
    fact, hint = capsys.readouterr().err.splitlines()
    assert f"snapshots/net.baseline has baseline schema {BASELINE_SCHEMA_VERSION - 1}" in fact
    command = shlex.split(hint.partition(": qnndbg ")[2].replace("RECORDING", "net.qnndbg"))
    assert main(command) == 0
    main(verb)
    assert "baseline schema" not in capsys.readouterr().err


def test_baseline_of_a_newer_schema_is_not_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "net.qnndbg", "--update"]) == 0
    front = Path("snapshots/net.baseline/baseline.json")
    front.write_text(front.read_text().replace(f'"schema": {BASELINE_SCHEMA_VERSION}', '"schema": 99'))
    assert main(["check", "net.qnndbg", "--update"]) == 3
    assert "update qnndbg" in capsys.readouterr().err
    assert '"schema": 99' in front.read_text()


def test_expired_waiver(capsys: pytest.CaptureFixture[str]) -> None:
    Path("qnndbg.toml").write_text("[[waiver]]\nmatch='relu'\nreason='x'\nexpires=2001-01-01")
    assert main(["check", "net.qnndbg", "--no-baseline"]) == 2
    assert "expired on 2001-01-01" in capsys.readouterr().err


def test_failed_update_leaves_the_baseline() -> None:
    assert main(["check", "net.qnndbg", "--update"]) == 0
    before = {p.name: p.read_bytes() for p in Path("snapshots/net.baseline").iterdir() if p.is_file()}
    Path("bad.qnndbg/comparison.json").unlink()
    assert main(["check", "bad.qnndbg", "--baseline", "snapshots/net", "--update"]) == 3
    assert {p.name: p.read_bytes() for p in Path("snapshots/net.baseline").iterdir() if p.is_file()} == before


def test_text_in_a_file_and_errors_command_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    recorded(Path("evil.qnndbg"), target="net\x1b[31m.py:make")
    assert main(["check", "evil.qnndbg", "--no-baseline", "--report", "check.txt"]) == 0
    assert "net[31m.py:make" in Path("check.txt").read_text(encoding="utf-8")
    failure = Failure(step="ex\x1bport", error="no\x1b[2J", hint="")
    recorded(Path("failed.qnndbg"), failure=failure)
    assert main(["check", "failed.qnndbg", "--no-baseline"]) == 4
    assert "failed at export: no[2J" in capsys.readouterr().err

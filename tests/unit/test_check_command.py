"""``qnndbg check`` as it is called on recordings: exit codes, files, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qnndbg.cli.main import main
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
        (["script.py", "--no-baseline"], 2, "script.py is a script"),
        (["net.qnndbg", "--no-baseline", "--update"], 2, "leave one of them out"),
        (["net.qnndbg", "--no-baseline", "--policy", "x.toml"], 2, "x.toml cannot be read"),
    ],
)
def test_refused(arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *arguments]) == code
    assert words in capsys.readouterr().err
    assert not Path("snapshots").exists()


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

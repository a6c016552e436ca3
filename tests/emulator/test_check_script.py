"""``qnndbg check SCRIPT.py ITS ARGUMENTS``: what a script lowers is recorded and judged."""

from __future__ import annotations

import json
from pathlib import Path

from tests.emulator.conftest import SCRIPTS, Command

WAYS, LOWER = (str(SCRIPTS / f"{name}.py") for name in ("ways", "lower"))


def test_each_lowering_of_a_script_is_held_against_a_baseline_of_its_own(
    command: Command, tmp_path: Path
) -> None:
    made = command("check", "-q", "--update", WAYS, "skip_op", "without_a_pass")
    assert made.returncode == 0, made.stderr
    baselines = sorted(path.name for path in (tmp_path / "snapshots").iterdir())
    assert baselines == ["ways-2.baseline", "ways.baseline"]

    same = command(
        *("check", "-q", "--format", "json", "--report", "r.json", WAYS, "skip_op", "without_a_pass")
    )
    assert same.returncode == 0, same.stderr
    assert same.stdout == ""
    found = [json.loads((tmp_path / name).read_text()) for name in ("r.json", "r-2.json")]
    assert [one["passed"] for one in found] == [True, True]
    assert [one["parting"] for one in found] == [None, None]

    swapped = command("check", "-q", WAYS, "without_a_pass", "skip_op")
    assert swapped.returncode == 1, swapped.stderr  # in the second one an op is on the CPU that was not
    assert swapped.stdout.count("first difference from the baseline") == 2
    assert "fallback" in swapped.stdout


def test_one_report_of_several_recordings_is_refused(command: Command) -> None:
    done = command("check", "-q", "--no-baseline", "--format", "md", WAYS, "skip_op", "without_a_pass")
    assert done.returncode == 2
    assert "left 2 recordings" in done.stderr
    assert "--report FILE" in done.stderr


def test_a_script_that_fails_is_not_judged(command: Command, tmp_path: Path) -> None:
    done = command("check", "-q", "--update", LOWER, "net.pte", "7")
    assert done.returncode == 4
    assert "ended with exit code 7" in done.stderr
    assert "qnndbg check lower.qnndbg" in done.stderr
    assert "script:" not in done.stdout  # which is for the report
    assert not (tmp_path / "snapshots").exists()
    assert command("check", "--no-baseline", "lower.qnndbg").returncode == 0


def test_a_script_that_lowers_nothing_is_no_pass(command: Command, tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text("print('nothing to lower')", encoding="utf-8")
    done = command("check", "-q", "--no-baseline", "idle.py")
    assert done.returncode == 5
    assert "lowered nothing to QNN" in done.stderr
    assert done.stdout == ""

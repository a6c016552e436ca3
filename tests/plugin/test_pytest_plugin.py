"""The plugin in runs of pytest that are of its own, on hand-made recordings."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from qnndbg.errors import UsageError
from qnndbg.pytest_plugin import target_of
from tests.unit.test_triage import of, recorded

ROOT = Path(__file__).parents[2]
ONE = """
    from pathlib import Path

    def test_net(qnndbg_check):
        qnndbg_check(Path("net.qnndbg"))
"""

pytest_plugins = ["pytester"]


class Runs:
    """Runs pytest in a folder with a recording ``net.qnndbg``, which can be made to regress."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.good()

    def good(self) -> None:
        recorded(self._emptied(), of(1.0))

    def bad(self) -> None:
        recorded(self._emptied(), of(9.0), scale=0.9, htp=20.0)

    def _emptied(self) -> Path:
        folder = self.pytester.path / "net.qnndbg"
        if folder.exists():
            folder.rename(self.pytester.path / f"old-{len(list(self.pytester.path.iterdir()))}")
        return folder

    def __call__(self, *args: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess("-p", "qnndbg.pytest_plugin", *args)

    def in_processes(self, *args: str) -> pytest.RunResult:
        return self.pytester.runpytest_subprocess(
            "-p", "qnndbg.pytest_plugin", "-p", "xdist", "-n", "2", *args
        )


@pytest.fixture
def runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    assert "PYTEST_ADDOPTS" not in os.environ
    return Runs(pytester)


def test_missing_baseline_fails_and_says_how_to_make_one(runs: Runs) -> None:
    runs.pytester.makepyfile(ONE)
    result = runs()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["there is no baseline snapshots/test_net.baseline", "hint: *--qnndbg-update"]
    )
    result.stdout.no_fnmatch_line("*During handling*")
    assert not (runs.pytester.path / "snapshots").exists()


def test_update_then_pass_then_regress_then_accept(runs: Runs) -> None:
    runs.pytester.makepyfile(ONE)
    runs("--qnndbg-update").assert_outcomes(passed=1)
    assert (runs.pytester.path / "snapshots/test_net.baseline/layers.jsonl").is_file()
    runs().assert_outcomes(passed=1)
    runs.bad()
    result = runs()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "✗ regressed: 2 regressed",
            "*blamed on Fold (transform)",
            "Regressed   output 0: 40.0 → 20.0 dB (limits.drop_db 1)",
            "*relu@0: 1.0 → 9.0 × floor*",
            "accept it: --qnndbg-update",
        ]
    )
    assert "pytest_plugin.py" not in result.stdout.str()
    runs("--qnndbg-update").assert_outcomes(passed=1)
    runs().assert_outcomes(passed=1)


def test_baseline_of_an_older_schema_is_renewed(runs: Runs) -> None:
    runs.pytester.makepyfile(ONE)
    runs("--qnndbg-update").assert_outcomes(passed=1)
    front = runs.pytester.path / "snapshots/test_net.baseline/baseline.json"
    page = json.loads(front.read_text(encoding="utf-8"))
    front.write_text(json.dumps(page | {"schema": page["schema"] - 1}), encoding="utf-8")
    runs().assert_outcomes(failed=1)
    runs("--qnndbg-update").assert_outcomes(passed=1)
    assert json.loads(front.read_text(encoding="utf-8")) == page
    runs().assert_outcomes(passed=1)


def test_policy_and_folder_of_the_project(runs: Runs) -> None:
    runs.pytester.makepyfile(ONE)
    runs.pytester.makeini("[pytest]\nqnndbg_snapshots = kept/here\nqnndbg_policy = kept/lax.toml")
    runs("--qnndbg-update").assert_outcomes(passed=1)
    assert (runs.pytester.path / "kept/here/test_net.baseline").is_dir()
    runs.bad()
    runs().assert_outcomes(failed=1)
    (runs.pytester.path / "kept/lax.toml").write_text("[limits]\nexcess = 10\ndrop_db = 30")
    runs().assert_outcomes(passed=1)
    (runs.pytester.path / "kept/lax.toml").write_text("[limits]\nexces = 10")
    result = runs()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["lax.toml: there is no key exces in limits", "hint: did you mean excess?"])


MANY = """
    from pathlib import Path
    import pytest

    @pytest.mark.parametrize("n", range(6))
    def test_net(qnndbg_check, n):
        qnndbg_check(Path("net.qnndbg"))
"""


def test_several_processes(runs: Runs) -> None:
    runs.pytester.makepyfile(MANY)
    runs.in_processes("--qnndbg-update").assert_outcomes(passed=6)
    names = sorted(path.name for path in (runs.pytester.path / "snapshots").iterdir())
    assert names == [f"test_net_{n}_.baseline" for n in range(6)]
    runs.bad()
    result = runs.in_processes()
    result.assert_outcomes(failed=6)
    result.stdout.fnmatch_lines(["*blamed on Fold (transform)"])


def test_lowering_that_failed_is_no_pass(runs: Runs) -> None:
    runs.pytester.makepyfile(ONE)
    runs("--qnndbg-update").assert_outcomes(passed=1)
    (runs.pytester.path / "net.qnndbg/comparison.json").unlink()
    result = runs()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*net.qnndbg is not complete*"])


def make() -> None:
    """A factory."""


def test_name_of_a_factory() -> None:
    assert target_of(make) == f"{__file__}:make"
    with pytest.raises(UsageError, match="at the top of a file"):
        target_of(lambda: None)

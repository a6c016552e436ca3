"""A fixed draw from ExecuTorch's own op tests: each lowering is recorded whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from qnndbg.recording.store import open_recording
from tests.sweep.__main__ import main
from tests.sweep.rows import Row, read_csv

TESTS = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    drawn = ["--limit", str(TESTS), "--cases", "1", "--seed", "0"]
    status = main([*drawn, "--keep", str(folder), "--csv", str(folder / "rows.csv")])
    assert status == 0, (folder / "worker.log").read_text(errors="replace")[-3000:]
    return folder


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[Row]:
    return read_csv(folder / "rows.csv")


def test_every_drawn_test_has_a_row_and_most_have_a_recording(rows: list[Row]) -> None:
    assert len({row.test for row in rows}) == TESTS
    assert {row.test.partition("/")[0] for row in rows} == {"float", "quantized"}
    recorded = [row for row in rows if row.status == "recorded"]
    assert len(recorded) > TESTS / 2, rows
    assert all(row.why for row in rows if row not in recorded)


def test_what_a_row_says_is_in_its_recording(rows: list[Row], folder: Path) -> None:
    for row in rows:
        if row.status != "recorded":
            continue
        recording = open_recording(folder / row.recording)
        comparison = recording.comparison()
        assert comparison is not None
        assert recording.manifest.complete
        assert (row.compared, row.total) == (comparison.coverage.compared, comparison.coverage.total)
        assert 0 < row.compared <= row.total
        assert row.accounted


def test_a_second_run_goes_on_where_the_first_ended(folder: Path, rows: list[Row]) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/*.qnndbg")}
    name = rows[0].test
    assert main(["--select", f"^{name}$", "--keep", str(folder), "--csv", str(folder / "rows.csv")]) == 0
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*/*.qnndbg")} == before

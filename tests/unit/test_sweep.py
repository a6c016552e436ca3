"""The sweep over upstream's tests: what it draws, what a dead worker costs, and what counts as whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from qnndbg.recording.store import Recording, open_recording
from tests.sweep.rows import Row, accounted, read_csv, row_with_recording, write_csv
from tests.sweep.sweep import chosen, sweep
from tests.sweep.table import summary, table
from tests.unit.recordings import Maker, Tensor, node, raw, real

NAMES = [f"float/{letter}" for letter in "abcdefghij"]


def test_a_seed_draws_the_same_tests_whatever_the_limit() -> None:
    drawn = chosen(NAMES, select="", limit=0, seed=7)
    assert sorted(drawn) == NAMES
    assert chosen(NAMES, select="", limit=4, seed=7) == drawn[:4]
    assert chosen(NAMES, select="", limit=0, seed=8) != drawn
    assert chosen(NAMES, select="/[ab]$", limit=0, seed=7) in (["float/a", "float/b"], ["float/b", "float/a"])


def test_a_worker_that_dies_costs_the_lowering_that_it_was_at(tmp_path: Path) -> None:
    shown: list[Row] = []
    task = {"keep": str(tmp_path), "fatal": "b", "endless": "c", "limit": 3.0}
    ended = [*sweep(task, ["a", "b", "c"], shown.append, job="tests.unit.sweep_jobs:work")]
    assert [(row.test, row.case, row.status) for row in shown] == [
        (test, case, "crashed" if (test, case) in {("b", 1), ("c", 2)} else "recorded")
        for test in "abc"
        for case in range(3)
    ]
    assert "SIGSEGV in step 'lowering 1'" in shown[4].why
    assert shown[8].why == "took longer than 3 s"
    assert [[row.test for row in rows] for rows in ended] == [[*"aaa"], [*"bbb"], [*"ccc"]]


def test_rows_survive_the_csv(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    assert read_csv(file) == []
    rows = [
        Row(test="float/a", status="skipped", why='says "no", twice\nor so'),
        Row(test="float/b", case=3, status="recorded", compared=2, total=2, accounted=True, seconds=1.5),
    ]
    write_csv(file, rows)
    assert read_csv(file) == rows


def test_the_summary_adds_up() -> None:
    common = {"status": "recorded", "compared": 3, "total": 5, "verdict": "clean"}
    rows = [
        Row(**common, test="a", accounted=True, reasons="1× not dumped; 1× made; inside", peer="works"),  # type: ignore[arg-type]
        Row(**common, test="a", case=1, reasons="2× not dumped", peer="IndexError: of"),  # type: ignore[arg-type]
        Row(test="b", status="skipped", why="upstream says so"),
    ]
    assert summary(rows).splitlines() == [
        "2 tests, 3 rows: 2 recorded, 1 skipped",
        "recorded: 2, every QNN tensor accounted for in 1",
        "tensors: 6 of 10 compared",
        "        3 × not dumped",
        "        1 × made; inside",
        "verdicts: 2 clean",
        "ExecuTorch's own debugger: 1 works, 1 IndexError",
    ]
    assert "3/5 UNACCOUNTED" in table(rows, peer=True).splitlines()[2]


def recorded(folder: Path, *, problem: str) -> Recording:
    """Of two computed tensors, one of which the CPU could not evaluate, and a weight."""
    maker = Maker(folder)
    same = raw(12, 14, 255)
    maker.partition(
        0,
        [
            Tensor(name="relu", made_by=node("relu"), htp=raw(12, 14, 250), reference=real(1, 2, 122.5)),
            Tensor(name="abs", made_by=node("abs"), htp=same),
            Tensor(name="weight", op="", kind="static"),
        ],
    )
    maker.writer.comparison(maker.compared({"abs": problem} if problem else {}))
    return open_recording(folder)


def test_a_row_says_what_the_recording_says(tmp_path: Path) -> None:
    row = Row(test="float/a", status="upstream failed", model="Net", why="AssertionError: 2 != 1")
    recording = recorded(tmp_path, problem="it is beyond it")
    assert row_with_recording(row, recording) == replace(
        row,
        status="recorded",
        precision="8a8w",
        compared=1,
        total=2,
        accounted=True,
        worst="",
        verdict="incomplete",
        reasons="1× the CPU could not evaluate it: it is beyond it",
    )


@pytest.mark.parametrize("lost", ["layer", "reason", "count"])
def test_a_tensor_that_is_left_out_in_silence_is_noticed(tmp_path: Path, lost: str) -> None:
    recording = recorded(tmp_path, problem="" if lost == "reason" else "it is beyond it")
    whole = recording.comparison()
    assert whole is not None
    coverage = whole.coverage
    if lost == "layer":
        whole = replace(whole, layers=whole.layers[1:])
    if lost == "count":
        whole = replace(whole, coverage=replace(coverage, total=1, compared=1, reasons={}))
    assert not accounted(recording, whole)

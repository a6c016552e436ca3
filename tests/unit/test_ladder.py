"""The ladder of a hand-made recording whose errors are known."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from qnndbg.analyze.ladder import climb
from qnndbg.errors import RecordingError
from qnndbg.model.graph import TensorRef
from qnndbg.model.recording import RANDOM, RUNGS, Input, Run, RunnerName
from qnndbg.model.result import MAX_SQNR_DB, Rung
from qnndbg.recording.store import open_recording
from qnndbg.recording.writer import Writer
from tests.unit.recordings import manifest

EAGER = np.array([3.0, -4.0, 12.0], np.float32)
"""Its squares sum up to 13²."""
MISSING = TensorRef("0" * 32, "float32", (3,))


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    writer = Writer(tmp_path)
    writer.manifest(manifest("16a8w", inputs=(Input(name="input 0", tensor=MISSING),)))
    return writer


def climbed(writer: Writer, *runs: tuple[RunnerName, tuple[np.ndarray | None, ...]]) -> tuple[Rung, ...]:
    for runner, results in runs:
        refs = tuple(None if r is None else writer.tensor(r) for r in results)
        writer.run(Run(runner=runner, results=refs))
    return climb(open_recording(writer.folder))


def decibels(rung: Rung) -> tuple[float | None, float | None]:
    both = rung.against_eager, rung.against_previous
    return tuple(None if error is None else error.sqnr_db for error in both)  # type: ignore[return-value]


def test_each_rung_is_measured_against_eager_and_against_the_one_before(writer: Writer) -> None:
    quantised = EAGER + np.array([0.13, 0, 0], np.float32)
    edge, htp = quantised.copy(), quantised + np.array([0, 1.3, 0], np.float32)
    rungs = climbed(
        writer, ("htp", (htp,)), ("eager", (EAGER,)), ("edge", (edge,)), ("quantized", (quantised,))
    )
    assert [(r.name, r.output, r.note) for r in rungs] == [
        (name, 0, "") for name in ("eager", "quantized", "edge", "htp")
    ]
    (eager, none), (q_eager, q_before), (e_eager, e_before), (h_eager, h_before) = map(decibels, rungs)
    assert (eager, none) == (MAX_SQNR_DB, None)
    assert q_eager == q_before == e_eager == pytest.approx(40.0, abs=1e-4)
    assert e_before == MAX_SQNR_DB
    assert h_eager == pytest.approx(10 * math.log10(169 / (0.13**2 + 1.3**2)), abs=1e-4)
    signal = float(np.sum(quantised.astype(np.float64) ** 2))
    assert h_before == pytest.approx(10 * math.log10(signal / 1.69), abs=1e-4)


def test_rungs_are_in_the_order_of_the_lowering_and_local_is_none(writer: Writer) -> None:
    names: tuple[RunnerName, ...] = ("local", *reversed(RUNGS))
    rungs = climbed(writer, *((name, (EAGER,)) for name in names))
    expected: tuple[RunnerName, ...] = (
        *("eager", "annotation", "quantized", "export", "edge", "transform", "reference"),
        *("htp-tapped", "htp", "htp-given"),
    )
    assert tuple(r.name for r in rungs) == expected


def test_output_of_a_random_draw_is_not_measured_and_others_are(writer: Writer) -> None:
    held, other = writer.tensor(EAGER), writer.tensor(EAGER + np.float32(7))
    writer.run(Run(runner="eager", results=(held, held)))
    writer.run(Run(runner="reference", results=(held, None), problems={"rand": RANDOM}))
    writer.run(Run(runner="htp", results=(held, other)))
    rungs = climb(open_recording(writer.folder))
    assert [decibels(rung) for rung in rungs[1:3]] == [(MAX_SQNR_DB, MAX_SQNR_DB)] * 2
    assert [decibels(rung) for rung in rungs[3:]] == [(None, None)] * 3


def test_rung_without_a_value_is_stepped_over(writer: Writer) -> None:
    off = EAGER + np.float32(1)
    rungs = climbed(writer, ("eager", (EAGER,)), ("edge", (off,)), ("reference", (None,)), ("htp", (off,)))
    assert [r.note for r in rungs] == ["", "", "not available", ""]
    assert decibels(rungs[2]) == (None, None)
    assert rungs[3].against_previous is not None
    assert rungs[3].against_previous.mismatched == 0


def test_outputs_are_told_apart_even_if_a_run_has_fewer(writer: Writer) -> None:
    rungs = climbed(writer, ("eager", (EAGER, EAGER * 2)), ("htp", (EAGER,)))
    assert [(r.name, r.output, r.note) for r in rungs] == [
        ("eager", 0, ""),
        ("htp", 0, ""),
        ("eager", 1, ""),
        ("htp", 1, "not available"),
    ]


def test_nothing_ran(writer: Writer) -> None:
    assert climbed(writer) == ()
    assert climbed(writer, ("eager", ())) == ()


def test_without_eager_nothing_is_measured_against_it(writer: Writer) -> None:
    rungs = climbed(writer, ("edge", (EAGER,)), ("htp", (EAGER,)))
    assert [decibels(r) for r in rungs] == [(None, None), (None, MAX_SQNR_DB)]


def test_a_number_and_one_element_are_the_same_output(writer: Writer) -> None:
    rungs = climbed(writer, ("eager", (np.array(2.0, np.float32),)), ("htp", (np.array([2.5], np.float32),)))
    assert rungs[1].against_eager is not None
    assert rungs[1].against_eager.max_abs == 0.5


def test_another_shape_is_no_number(writer: Writer) -> None:
    rungs = climbed(writer, ("eager", (EAGER,)), ("htp", (EAGER.reshape(3, 1)[:2],)))
    assert decibels(rungs[1]) == (None, None)


def test_integers_and_bools_are_outputs_too(writer: Writer) -> None:
    eager = (np.array([1, 2**40], np.int64), np.array([True, False]))
    htp = (np.array([1, 2**31], np.int64), np.array([True, True]))
    errors = [r.against_eager for r in climbed(writer, ("eager", eager), ("htp", htp)) if r.name == "htp"]
    assert [e.max_abs if e else None for e in errors] == [2**40 - 2**31, 1.0]


def test_bfloat16_is_measured_by_its_value(writer: Writer) -> None:
    bits = (EAGER.view(np.uint32) >> 16).astype(np.uint16)  # 3, -4 and 12 are exact in bfloat16
    writer.run(Run(runner="eager", results=(writer.tensor(bits, "bfloat16"),)))
    (_, htp) = climbed(writer, ("htp", (EAGER,)))
    assert decibels(htp) == (MAX_SQNR_DB, MAX_SQNR_DB)


def test_output_that_has_no_metric_is_data(writer: Writer) -> None:
    complex_output = EAGER.astype(np.complex64)
    rungs = climbed(writer, ("eager", (complex_output,)), ("htp", (complex_output,)))
    assert decibels(rungs[1]) == (None, None)


def test_each_method_and_each_sample_has_a_ladder_of_its_own(writer: Writer) -> None:
    page = writer.read_manifest()
    given = [
        replace(page.inputs[0], method=m, sample=s) for m, s in (("small", 0), ("small", 1), ("large", 0))
    ]
    writer.manifest(replace(page, inputs=tuple(given)))
    offsets: dict[RunnerName, float] = {"eager": 0.0, "htp": 13.0}
    for runner, off in offsets.items():
        for method, sample in (("large", 0), ("small", 0), ("small", 1)):
            value = EAGER + np.array([off if method == "large" else 0, off / 13 * sample, 0], np.float32)
            run = Run(runner=runner, method=method, sample=sample, results=(writer.tensor(value),))
            writer.run(run)
    rungs = climb(open_recording(writer.folder))
    assert [(r.method, r.sample, r.name, decibels(r)[0]) for r in rungs] == [
        ("small", 0, "eager", MAX_SQNR_DB),
        ("small", 0, "htp", MAX_SQNR_DB),
        ("small", 1, "eager", MAX_SQNR_DB),
        ("small", 1, "htp", pytest.approx(20 * math.log10(13))),
        ("large", 0, "eager", MAX_SQNR_DB),
        ("large", 0, "htp", 0.0),
    ]


def test_output_that_is_no_tensor_anywhere_is_none_to_measure(writer: Writer) -> None:
    rungs = climbed(writer, ("eager", (None, EAGER, None)), ("edge", (None, EAGER)), ("htp", (None, EAGER)))
    assert [(r.name, r.output) for r in rungs] == [("eager", 1), ("edge", 1), ("htp", 1)]


def test_missing_tensor_is_a_broken_recording(writer: Writer) -> None:
    writer.run(Run(runner="eager", results=(MISSING,)))
    with pytest.raises(RecordingError, match=MISSING.digest):
        climb(open_recording(writer.folder))

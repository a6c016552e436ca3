"""A recording as pandas tables: the same numbers as in the reports, and values as they were dumped."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import qnndbg
from qnndbg.errors import RecordingError, UsageError
from qnndbg.model.layer_ladder import LayerLadder, LayerRungs
from qnndbg.model.recording import PassEvent
from qnndbg.recording.writer import Writer
from qnndbg.report.as_csv import csv_report
from tests.golden.formats import made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    writer = Writer(tmp_path / "net.qnndbg")
    writer.manifest(made.MANIFEST)
    writer.pass_event(PassEvent(index=0, stage="export", name=""))
    writer.pass_event(PassEvent(index=1, stage="export", name="LiftConstantScalarOperands", changed=True))
    writer.layer_ladder(
        LayerLadder(
            rungs=("eager", "htp-tapped"),
            layers=(
                LayerRungs(
                    tensor="conv@0", partition=0, against_eager=(200.0, 31.5), against_previous=(None, 31.5)
                ),
            ),
        )
    )
    writer.comparison(made.COMPARISON)
    return writer.folder


def test_layers_are_those_of_the_csv_report(folder: Path) -> None:
    read = pd.read_csv(io.StringIO(csv_report(made.COMPARISON)), index_col="position")
    found = qnndbg.open(folder).layers()
    assert list(found.columns) == list(read.columns)
    for column in ("excess", "accumulated_sqnr_db", "local_max_abs", "effect"):
        np.testing.assert_array_equal(found[column].astype(float), read[column].astype(float))
    assert list(found["tensor"]) == [layer.tensor for layer in made.COMPARISON.layers]


def test_rungs_have_a_column_for_each_metric(folder: Path) -> None:
    found = qnndbg.open(folder).ladder()
    assert list(found["name"]) == [rung.name for rung in made.COMPARISON.ladder]
    errors = [rung.against_eager and rung.against_eager.sqnr_db for rung in made.COMPARISON.ladder]
    np.testing.assert_array_equal(found["against_eager_sqnr_db"].astype(float), np.array(errors, float))


def test_one_row_for_each_rung_of_a_layer(folder: Path) -> None:
    found = qnndbg.open(folder).layer_ladders()
    assert found[["tensor", "rung", "against_eager"]].values.tolist() == [
        ["conv@0", "eager", 200.0],
        ["conv@0", "htp-tapped", 31.5],
    ]


def test_sources_findings_passes_and_fallbacks(folder: Path) -> None:
    answer = qnndbg.open(folder)
    assert list(answer.sources()["share"]) == [source.share for source in made.COMPARISON.sources]
    assert list(answer.findings()["rule"]) == [finding.rule for finding in made.COMPARISON.findings]
    assert answer.passes()[["name", "changed"]].values.tolist() == [["LiftConstantScalarOperands", True]]
    fallbacks = [f.op for method in made.MANIFEST.methods for f in method.fallbacks]
    assert list(answer.fallbacks()["op"]) == fallbacks
    assert made.COMPARISON.verdict.text in repr(answer)


def test_recording_that_ends_early_has_empty_tables(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "net.qnndbg")
    writer.manifest(made.MANIFEST)
    answer = qnndbg.open(writer.folder)
    assert [len(table) for table in (answer.layers(), answer.ladder(), answer.sources())] == [0, 0, 0]
    assert "accumulated_sqnr_db" in answer.layers().columns


def test_layer_that_is_not_there(folder: Path) -> None:
    answer = qnndbg.open(folder)
    name = made.COMPARISON.layers[0].tensor
    with pytest.raises(UsageError, match="has no layer") as error:
        answer.values(f"{name}x")
    assert name in error.value.hint
    with pytest.raises(UsageError, match="has no values"):
        answer.values(name)
    with pytest.raises(RecordingError, match="there is no recording"):
        qnndbg.open(folder / "none")


def test_nothing_of_it_loads_torch(folder: Path) -> None:
    code = "import sys, qnndbg; qnndbg.open(sys.argv[1]).layers(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

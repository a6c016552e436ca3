"""The layers as CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from pathlib import Path

import pandas
import pytest
from msgspec.structs import replace

from qnndbg.report.as_csv import csv_report, csv_text, header
from tests.golden.formats import made
from tests.golden.formats.conftest import Golden

PAGE = Path(__file__).parents[3] / "docs/reference/report-csv.md"


def test_golden(exactly: Golden) -> None:
    exactly("made.csv", csv_report(made.COMPARISON))


def test_a_spreadsheet_reads_the_numbers_that_the_layers_have() -> None:
    frame = pandas.read_csv(io.StringIO(csv_report(made.COMPARISON)))
    assert frame["local_max_lsb"].tolist()[:3] == [1.0, 90.0, 1.0]
    assert math.isnan(frame["local_max_lsb"][3])
    assert frame["excess"].tolist()[:3] == [0.4, 20.0, 0.04]
    assert frame["standing"].fillna("").tolist() == ["", "made here", "inherited", ""]
    assert frame["shape"][0] == "1x8x4"


def test_an_error_that_rounding_explains_nothing_of_is_infinite() -> None:
    layer = replace(made.LAYERS[1], floor=0.0)
    row = next(csv.DictReader(io.StringIO(csv_report(replace(made.COMPARISON, layers=(layer,))))))
    assert row["excess"] == "inf"
    assert pandas.to_numeric(row["excess"]) == math.inf


def test_one_of_several_scales_is_no_scale_of_the_tensor() -> None:
    layer = replace(made.LAYERS[0], encoding=made.PER_CHANNEL)
    row = next(csv.DictReader(io.StringIO(csv_report(replace(made.COMPARISON, layers=(layer,))))))
    assert (row["scheme"], row["scale"], row["qmin"]) == ("per_channel", "", "-128")


def test_sorted_rows_keep_their_positions() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_report(made.COMPARISON, sort="local"))))
    assert [row["position"] for row in rows] == ["1", "0", "2", "3"]


def test_no_cell_is_a_formula_and_awkward_text_survives() -> None:
    text = csv_text(["a", "b", "c"], [['=HYPERLINK("x")', -1.5, 'with "quotes",\nand a line']])
    assert list(csv.reader(io.StringIO(text)))[1] == [
        '\'=HYPERLINK("x")',
        "-1.5",
        'with "quotes",\nand a line',
    ]


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("\x1b]0;owned\x07relu", "]0;ownedrelu"),
        ("re\0lu\x9b31m", "relu31m"),
        ("\u202euler", "uler"),
        ("\x1b=1+1", "'=1+1"),
        ("\r+1", "'+1"),
        ("\n@SUM(1)", "'\n@SUM(1)"),
        ("\uff1d1", "'\uff1d1"),
        ("−3 dB", "−3 dB"),
    ],
)
def test_no_cell_commands_a_terminal_or_a_spreadsheet(name: str, cell: str) -> None:
    assert list(csv.reader(io.StringIO(csv_text(["name"], [[name]]), newline="")))[1] == [cell]


def test_a_recording_without_a_comparison_has_a_header() -> None:
    assert csv_report(None) == ",".join(header()) + "\n"


def test_every_column_is_documented_and_none_else() -> None:
    named = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    sides = [name for name in named if not name.startswith("SIDE")]
    metrics = re.findall(r"`SIDE_(\w+)`", PAGE.read_text(encoding="utf-8"))
    assert {*sides, *(f"{side}_{metric}" for side in ("accumulated", "local") for metric in metrics)} == set(
        header()
    )

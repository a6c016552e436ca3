"""A difference in every format that a file can hold."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pandas
import pytest
from lxml import etree, html
from msgspec.structs import replace

from qnndbg.model.diff import Diff, LayerDiff
from qnndbg.recording.store import Recording
from qnndbg.report.diff_csv import diff_csv, header
from qnndbg.report.diff_formats import DIFFS
from qnndbg.report.diff_layers import ordered
from qnndbg.report.diff_pair import Pair, pair_from_recordings
from qnndbg.report.regressions import REGRESSIONS, regressions_of_pair
from tests.golden.formats.conftest import Golden
from tests.golden.formats.test_junit import SCHEMA as JUNIT
from tests.golden.formats.test_junit import outcomes
from tests.golden.formats.test_markdown import LIMIT
from tests.golden.formats.test_sarif import VALIDATOR
from tests.golden.test_diff import sides

HOSTILE = "</script><img src=x onerror=alert(1)>"
DOCS = Path(__file__).parents[3] / "docs/reference"


@pytest.fixture
def two(tmp_path: Path) -> tuple[Recording, Recording]:
    return sides(tmp_path)


@pytest.fixture
def pair(two: tuple[Recording, Recording]) -> Pair:
    return pair_from_recordings(*two)


def with_diff(pair: Pair, **fields: Any) -> Pair:
    return Pair(replace(pair.diff, **fields), pair.a, pair.b, pair.version)


def layer(diff: Diff, status: str) -> LayerDiff:
    return next(one for one in diff.layers if one.status == status)


@pytest.mark.parametrize("name", ["md", "csv", "junit", "sarif"])
def test_golden(name: str, pair: Pair, exactly: Golden) -> None:
    exactly(f"diff.{'junit.xml' if name == 'junit' else name}", DIFFS[name](pair, None))


@pytest.mark.parametrize("name", DIFFS)
def test_equal_recordings_give_equal_bytes_without_a_path(name: str, tmp_path: Path) -> None:
    texts = [
        DIFFS[name](pair_from_recordings(*sides(tmp_path / folder)), None) for folder in ("one", "other")
    ]
    assert texts[0] == texts[1]
    assert str(tmp_path) not in texts[0]


@pytest.mark.parametrize("name", DIFFS)
def test_the_same_recording_twice_is_no_failure(name: str, two: tuple[Recording, Recording]) -> None:
    text = DIFFS[name](pair_from_recordings(two[0], two[0]), None)
    if name == "junit":
        assert set(outcomes(etree.fromstring(text.encode())).values()) == {"passed"}
    elif name == "sarif":
        assert json.loads(text)["runs"][0]["results"] == []
    elif name == "csv":
        assert text == ",".join(header()) + "\n"
    else:
        assert "different" not in text.replace("differently", "").partition("<script")[0]


# CSV


def test_rows_have_the_errors_of_both_sides(pair: Pair) -> None:
    frame = pandas.read_csv(io.StringIO(diff_csv(pair.diff)))
    row = frame[frame["status"] == "regressed"].iloc[0]
    assert (row["a_local_sqnr_db"], row["b_local_sqnr_db"], row["b_local_max_lsb"]) == (47.2, 21.3, 31.0)
    assert (row["a_tensor"], row["b_tensor"], row["local_trend"]) == ("act@0", "act_0@0", "worse")
    new = frame[frame["status"] == "new"].iloc[0]
    assert pandas.isna(new["a_tensor"])
    assert new["b_tensor"] == "cast_0@0"


def test_layers_are_sorted_by_what_they_lost(pair: Pair) -> None:
    by_local = [one.status for one in ordered(pair.diff.layers, "local")]
    assert by_local == ["regressed", "worse", "worse", "new"]
    lost = [one.b.tensor for one in ordered(pair.diff.layers, "accumulated") if one.b]
    assert lost == ["act_0@0", "sum_0@0", "last_0@0", "cast_0@0"]
    rows = list(csv.DictReader(io.StringIO(diff_csv(pair.diff, sort="status"))))
    assert [row["position"] for row in rows] == ["0", "2", "3", "1"]


def test_every_column_is_documented_and_none_else() -> None:
    text = (DOCS / "diff-csv.md").read_text(encoding="utf-8").partition("## A check")[0]
    plain = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    of_a_side = re.findall(r"`SIDE_(\w+)`", text)
    assert [*plain, *(f"{side}_{name}" for side in "ab" for name in of_a_side)] == header()


# JUnit


def test_outputs_and_modules_fail_where_they_regressed(pair: Pair) -> None:
    root = etree.fromstring(DIFFS["junit"](pair, None).encode())
    JUNIT.assertValid(root)
    assert outcomes(root) == {
        "recordings/completes": "passed",
        "recordings/lowering": "passed",
        "outputs.forward/output 0": "failure",
        "layers.forward/(no module)": "passed",
        "layers.forward/act": "failure",
        "layers.forward/head": "passed",
    }
    backwards = Pair(replace(pair.diff, layers=(), rungs=()), pair.b, pair.a, pair.version)
    assert "failure" not in outcomes(etree.fromstring(DIFFS["junit"](backwards, None).encode())).values()


def test_an_output_that_is_gone_fails_and_an_early_end_is_an_error(pair: Pair) -> None:
    side = replace(pair.diff.b, complete=False, failure="lower: no")
    assert pair.b is not None
    shorter = replace(pair.b, ladder=pair.b.ladder[:-1])
    root = etree.fromstring(
        DIFFS["junit"](Pair(replace(pair.diff, b=side), pair.a, shorter, "0"), None).encode()
    )
    JUNIT.assertValid(root)
    found = outcomes(root)
    assert (found["recordings/completes"], found["outputs.forward/output 0"]) == ("error", "failure")


# SARIF


def test_regressions_stand_at_the_lines_of_the_code(pair: Pair) -> None:
    log = json.loads(DIFFS["sarif"](pair, None))
    VALIDATOR.validate(log)
    run = log["runs"][0]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [rule.id for rule in REGRESSIONS]
    told = [(one["ruleId"], one["level"], one["locations"][0]) for one in run["results"]]
    assert [one[:2] for one in told] == [
        ("QD601", "error"),
        ("QD602", "error"),
        ("QD602", "note"),
        ("QD602", "note"),
        ("QD603", "warning"),
        ("QD607", "note"),
    ]
    assert told[1][2]["physicalLocation"]["artifactLocation"]["uri"] == "net.py"
    assert told[1][2]["physicalLocation"]["region"] == {"startLine": 2}
    assert len({json.dumps(one["partialFingerprints"]) for one in run["results"]}) == len(told)


def test_every_rule_is_described() -> None:
    text = (DOCS / "regressions.md").read_text(encoding="utf-8")
    sections = re.findall(
        r"^### (QD6\d+)\n\n\*\*(.+?)\*\*\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert [(rule, title) for rule, title, _ in sections] == [(rule.id, rule.title) for rule in REGRESSIONS]
    assert all(rule.help in body for rule, (_, _, body) in zip(REGRESSIONS, sections, strict=True))


def test_a_layer_that_got_better_is_no_finding(pair: Pair) -> None:
    better = replace(layer(pair.diff, "regressed"), status="fixed")
    quiet = with_diff(pair, layers=(better,), fallbacks=(), first_parting=None)
    assert [found.rule for found in regressions_of_pair(quiet)] == ["QD601"]


# Markdown


def test_what_is_not_folded_away_is_short(pair: Pair) -> None:
    many = with_diff(pair, layers=(layer(pair.diff, "regressed"),) * 3000)
    open_part = DIFFS["md"](many, None).partition("<details>")[0]
    assert len(open_part.splitlines()) < 40
    assert "39.8 dB in A, 20.4 dB in B" in open_part


def test_a_large_difference_fits_into_a_comment(pair: Pair) -> None:
    changed = replace(layer(pair.diff, "worse"), status="changed")
    assert changed.b is not None
    long = replace(changed, b=replace(changed.b, tensor="tensor" * 12, module="module." * 12))
    large = with_diff(pair, layers=(long,) * 5000, qnn=pair.diff.qnn * 2000, graphs=pair.diff.graphs * 500)
    assert len(DIFFS["md"](large, None)) < LIMIT


# HTML


def page(pair: Pair, sort: Any = None) -> html.HtmlElement:
    return html.document_fromstring(DIFFS["html"](pair, sort))


def test_it_leads_with_the_verdict_the_parting_and_the_numbers(pair: Pair) -> None:
    tree = page(pair)
    names = [part.get("id") for part in tree.iter("section")]
    assert names == ["verdict", "parting", "ladder", "layers", "passes", "graphs", "cpu", "qnn", "program"]
    text = " ".join(tree.get_element_by_id("verdict").text_content().split())
    assert "different WidenHardswish (transform) is in B only" in text
    assert "39.8 dB in A, 20.4 dB in B" in text
    assert "by WidenHardswish" in tree.get_element_by_id("parting").text_content()


def test_both_ladders_are_drawn_and_the_first_rung_to_move_is_marked(pair: Pair) -> None:
    ladder = page(pair).get_element_by_id("ladder")
    points = ladder.xpath(".//*[local-name()='circle']")
    assert {point.get("class") for point in points} == {"series series0", "series series1"}
    (marked,) = [row for row in ladder.xpath(".//tr") if "first to move" in row.text_content()]
    assert [cell.text_content() for cell in marked][:4] == ["htp", "39.8", "20.4", "−19.4 dB"]


def test_every_layer_is_a_row_that_sorts_by_its_numbers(pair: Pair) -> None:
    (table,) = page(pair).xpath("//section[@id='layers']//table")
    rows = table.xpath(".//tbody/tr")
    assert [row.get("data-kind") for row in rows] == ["regressed", "worse", "worse", "new"]
    cells = rows[0].xpath("./td[contains(@class, 'num')]")
    assert [cell.get("data-value") for cell in cells] == [
        "47.2",
        "21.3",
        "25.9",
        "47.2",
        "21.3",
        "25.9",
        "31",
    ]
    assert [cell.text for cell in cells][:3] == ["47.2", "21.3", "+25.9"]
    by_order = page(pair, "order").xpath("//section[@id='layers']//tbody/tr/@data-kind")
    assert by_order == ["regressed", "new", "worse", "worse"]


def test_encodings_and_dtypes_have_a_table_of_their_own(pair: Pair) -> None:
    change = layer(pair.diff, "regressed")
    changes = pair.diff.first_parting
    assert changes is not None
    assert changes.graph is not None
    scale = changes.graph.changed[0].changes[0]
    tree = page(with_diff(pair, layers=(replace(change, changes=(scale,)),)))
    row = tree.xpath("//section[@id='encodings']//tbody/tr")[0]
    assert [cell.text_content() for cell in row][3:6] == ["scale", "0.02", "0.16"]


def test_it_loads_nothing_and_a_strangers_names_are_text(pair: Pair) -> None:
    bad = layer(pair.diff, "regressed")
    assert bad.b is not None
    hostile = replace(bad, b=replace(bad.b, tensor=HOSTILE, module=HOSTILE, source=HOSTILE))
    side = replace(pair.diff.a, target=HOSTILE)
    tree = page(with_diff(pair, layers=(hostile,), a=side))
    assert tree.xpath("//img") == []
    assert len(tree.xpath("//script")) == 1
    assert [link for link in tree.xpath("//@src | //@href") if not link.startswith("#")] == []
    markdown = DIFFS["md"](with_diff(pair, layers=(hostile,), a=side), None)
    assert re.findall(r"(?<!\\)<img", re.sub("`[^`]*`", "", markdown)) == []

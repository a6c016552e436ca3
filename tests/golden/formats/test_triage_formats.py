"""A check in every format that a file can hold."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from lxml import etree, html
from msgspec.structs import replace

from qnndbg.gate.policy import Policy
from qnndbg.gate.triage import triage
from qnndbg.model.triage import Triage
from qnndbg.recording.store import Recording
from qnndbg.report.diff_formats import TRIAGES
from qnndbg.report.triage_csv import BLAME, FIELDS
from qnndbg.report.triage_junit import triage_junit
from tests.golden.formats.conftest import Golden
from tests.golden.formats.test_diff_formats import DOCS, HOSTILE
from tests.golden.formats.test_junit import SCHEMA as JUNIT
from tests.golden.formats.test_junit import outcomes
from tests.golden.formats.test_markdown import LIMIT
from tests.golden.formats.test_sarif import VALIDATOR
from tests.golden.test_triage import judged
from tests.unit.test_triage import recorded

Found = tuple[Triage, Recording]


@pytest.fixture
def found(tmp_path: Path) -> Found:
    return judged(tmp_path)


@pytest.mark.parametrize("name", ["md", "csv", "junit", "sarif"])
def test_golden(name: str, found: Found, exactly: Golden) -> None:
    exactly(f"triage.{'junit.xml' if name == 'junit' else name}", TRIAGES[name](*found))


@pytest.mark.parametrize("name", TRIAGES)
def test_equal_checks_give_equal_bytes_without_a_path(name: str, tmp_path: Path) -> None:
    texts = [TRIAGES[name](*judged(tmp_path / folder)) for folder in ("one", "other")]
    assert texts[0] == texts[1]
    assert str(tmp_path) not in texts[0]


@pytest.mark.parametrize("name", TRIAGES)
def test_what_passes_fails_in_no_format(name: str, tmp_path: Path) -> None:
    a = recorded(tmp_path / "a")
    text = TRIAGES[name](triage(a, a, Policy()), a)
    if name == "junit":
        assert set(outcomes(etree.fromstring(text.encode())).values()) == {"passed"}
    elif name == "sarif":
        assert json.loads(text)["runs"][0]["results"] == []
    elif name == "csv":
        assert text == ",".join((*FIELDS, *BLAME)) + "\n"
    else:
        assert "passed" in text


def test_outputs_and_modules_fail_as_the_policy_says(found: Found) -> None:
    root = etree.fromstring(TRIAGES["junit"](*found).encode())
    JUNIT.assertValid(root)
    assert outcomes(root) == {
        "check/policy": "passed",
        "check/accuracy": "passed",
        "check/coverage": "passed",
        "check/fallback": "failure",
        "outputs.forward/output 0": "failure",
        "layers.forward/(no module)": "failure",  # a dtype
        "layers.forward/act": "failure",
        "layers.forward/extra": "passed",  # new
        "layers.forward/head": "passed",  # waived
    }
    texts = {case.get("name"): "".join(case.itertext()) for case in root.iter("testcase")}
    assert "the kernel of QNN 2.49 rounds down" in texts["head"]
    assert "scale 0.1 → 0.9" in texts["act"]


def test_what_was_not_compared_does_not_pass(found: Found) -> None:
    one, recording = found
    answer = recording.comparison()
    assert answer is not None
    lost = replace(answer.layers[0], module="lost", reason="not dumped", local=None, accumulated=None)
    text = triage_junit(one, replace(answer, layers=(*answer.layers, lost)))
    assert outcomes(etree.fromstring(text.encode()))["layers.forward/lost"] == "skipped"


def test_regressions_stand_at_the_lines_of_the_code(found: Found) -> None:
    log = json.loads(TRIAGES["sarif"](*found))
    VALIDATOR.validate(log)
    results = log["runs"][0]["results"]
    assert [(one["ruleId"], one["level"]) for one in results] == [
        ("QD601", "error"),
        ("QD602", "error"),
        ("QD605", "error"),
        ("QD603", "error"),
        ("QD604", "note"),
        ("QD602", "note"),
        ("QD605", "note"),
        ("QD607", "note"),
    ]
    layer = results[1]["locations"][0]["physicalLocation"]
    assert (layer["artifactLocation"]["uri"], layer["region"]) == ("net.py", {"startLine": 8})


def test_rows_are_the_judgements(found: Found) -> None:
    rows = list(csv.DictReader(io.StringIO(TRIAGES["csv"](*found))))
    assert [(row["subject"], row["where"], row["status"]) for row in rows] == [
        (one.subject, one.where, one.status) for one in found[0].judgements
    ]
    output, layer = rows[:2]
    assert (output["before"], output["now"], output["unit"], output["fails"]) == (
        "40.0",
        "20.4",
        "dB",
        "true",
    )
    assert (layer["blamed_on"], layer["changes"]) == ("Fold (transform)", "scale 0.1 → 0.9")


def test_every_column_is_documented_and_none_else() -> None:
    text = (DOCS / "diff-csv.md").read_text(encoding="utf-8").partition("## A check")[2]
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == [*FIELDS, *BLAME]


def test_markdown_is_short_and_fits_into_a_comment(found: Found) -> None:
    one, recording = found
    many = replace(one, judgements=one.judgements * 1000)
    text = TRIAGES["md"](many, recording)
    assert len(text) < LIMIT
    assert len(text.partition("<details>")[0].splitlines()) < 40


def test_the_page_leads_with_the_answer_and_lists_every_judgement(found: Found) -> None:
    one, recording = found
    tree = html.document_fromstring(TRIAGES["html"](one, recording))
    assert [part.get("id") for part in tree.iter("section")] == ["verdict", "judgements", "notes"]
    text = " ".join(tree.get_element_by_id("verdict").text_content().split())
    assert "regressed 4 regressed, 1 missing, 2 waived" in text
    assert "blamed on Fold (transform)" in text
    rows = tree.xpath("//section[@id='judgements']//tbody/tr")
    assert [row.get("data-kind") for row in rows] == [judgement.status for judgement in one.judgements]


def test_a_strangers_names_are_text(found: Found) -> None:
    one, recording = found
    bad = replace(one.judgements[1], where=HOSTILE, module=HOSTILE, source=HOSTILE, waiver=HOSTILE)
    tree = html.document_fromstring(TRIAGES["html"](replace(one, judgements=(bad,)), recording))
    assert tree.xpath("//img") == []
    assert len(tree.xpath("//script")) == 1

"""The SARIF log, against the part of the SARIF 2.1.0 schema that it uses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

from qnndbg.analyze.rules.catalog import RULES
from qnndbg.report.sarif import recorded_file, sarif_report
from tests.golden.formats import made
from tests.golden.formats.conftest import Golden

SCHEMA = json.loads(Path(__file__).with_name("sarif-subset.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def run_of(manifest: Any, comparison: Any) -> Any:
    log = json.loads(sarif_report(manifest, comparison))
    VALIDATOR.validate(log)
    return log["runs"][0]


def test_golden(exactly: Golden) -> None:
    exactly("made.sarif", sarif_report(made.MANIFEST, made.COMPARISON))


def test_findings_stand_at_the_lines_of_the_code() -> None:
    first = run_of(made.MANIFEST, made.COMPARISON)["results"][0]
    physical = first["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "net.py"
    assert physical["region"] == {"startLine": 21}
    assert (first["ruleId"], first["level"]) == ("QD103", "error")


def test_a_finding_without_a_line_points_to_the_recorded_file() -> None:
    second = run_of(made.MANIFEST, made.COMPARISON)["results"][1]
    physical = second["locations"][0]["physicalLocation"]
    assert (physical["artifactLocation"]["uri"], "region" in physical) == ("net.py", False)


@pytest.mark.parametrize(
    ("target", "file"),
    [
        ("net.py:make", "net.py"),
        ("a/lower.py --its args", "a/lower.py"),
        ("example:digits", ""),
        ("pkg.mod:f", ""),
    ],
)
def test_the_recorded_file_is_told_from_packages_and_examples(target: str, file: str) -> None:
    assert recorded_file(target) == file


def test_an_absolute_path_never_goes_in() -> None:
    found = replace(made.FINDINGS[0], source="/home/someone/net.py:3")
    text = sarif_report(made.MANIFEST, replace(made.COMPARISON, findings=(found,)))
    assert "/home" not in text


def test_rules_are_found_by_their_index_and_unknown_ones_have_none() -> None:
    run = run_of(made.MANIFEST, made.COMPARISON)
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in RULES]
    known, _, unknown = run["results"]
    assert rules[known["ruleIndex"]]["id"] == known["ruleId"]
    assert "ruleIndex" not in unknown


def test_a_lowering_that_failed_is_a_notification() -> None:
    invocation = run_of(made.FAILED, None)["invocations"][0]
    assert invocation["executionSuccessful"] is False
    assert "grid_sampler_2d" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_fingerprints_tell_findings_apart_and_stay_if_numbers_change() -> None:
    before = run_of(made.MANIFEST, made.COMPARISON)["results"]
    changed = replace(made.COMPARISON, findings=tuple(replace(f, evidence="91%") for f in made.FINDINGS))
    after = run_of(made.MANIFEST, changed)["results"]
    prints = [json.dumps(result["partialFingerprints"]) for result in before]
    assert prints == [json.dumps(result["partialFingerprints"]) for result in after]
    assert len(set(prints)) == len(prints)


def test_the_schema_refuses_what_is_not_sarif() -> None:
    log = json.loads(sarif_report(made.MANIFEST, made.COMPARISON))
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert not VALIDATOR.is_valid(log)

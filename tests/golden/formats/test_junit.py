"""JUnit XML, against the schema that CI servers read it by."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree
from msgspec.structs import replace

from qnndbg.model.recording import Manifest
from qnndbg.model.result import Comparison, Coverage
from qnndbg.report.junit import Case, Suite, junit_report, junit_xml
from tests.golden.formats import made
from tests.golden.formats.conftest import Golden

SCHEMA = etree.XMLSchema(etree.parse(str(Path(__file__).with_name("junit.xsd"))))
NOTHING = replace(made.COMPARISON, layers=(), coverage=Coverage(compared=0, total=4, reasons={"lost": 4}))
CLEAN = replace(
    made.COMPARISON,
    verdict=replace(made.VERDICT, kind="clean", text="clean: 55.0 dB against eager"),
    ladder=made.LADDER[6:8],
    findings=made.FINDINGS[2:],
)


def parsed(manifest: Manifest, comparison: Comparison | None) -> etree._Element:
    root = etree.fromstring(junit_report(manifest, comparison).encode())
    SCHEMA.assertValid(root)
    return root


def outcomes(root: etree._Element) -> dict[str, str]:
    """Name of each test case to its outcome."""
    return {
        f"{case.get('classname')}/{case.get('name')}": next(
            (str(child.tag) for child in case if child.tag != "system-out"), "passed"
        )
        for case in root.iter("testcase")
    }


def test_golden(exactly: Golden) -> None:
    exactly("made.junit.xml", junit_report(made.MANIFEST, made.COMPARISON))


def test_outputs_and_modules_fail_where_the_error_is() -> None:
    assert outcomes(parsed(made.MANIFEST, made.COMPARISON)) == {
        "recording/completes": "passed",
        "recording/verdict": "failure",
        "recording/coverage": "passed",
        "outputs.forward/sample 0 output 0": "failure",
        "outputs.forward/sample 0 output 1": "passed",
        "outputs.forward/sample 0 output 2": "skipped",
        "layers.forward/(no module)": "skipped",
        "layers.forward/head": "passed",
        "layers.forward/stem": "passed",
        "layers.forward/stem.act": "failure",
    }


def test_counts_are_those_of_the_cases() -> None:
    root = parsed(made.MANIFEST, made.COMPARISON)
    for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
        assert int(root.get(name)) == len(list(root.iter(tag)))
        assert sum(int(suite.get(name)) for suite in root) == int(root.get(name))


def test_failures_carry_the_verdict_and_the_finding() -> None:
    root = parsed(made.MANIFEST, made.COMPARISON)
    texts = {case.get("name"): "".join(case.itertext()) for case in root.iter("testcase")}
    assert made.VERDICT.text in texts["verdict"]
    assert made.FINDINGS[0].help in texts["stem.act"]


def test_a_clean_recording_passes() -> None:
    assert set(outcomes(parsed(made.MANIFEST, CLEAN)).values()) <= {"passed", "skipped"}


def test_a_lowering_that_failed_is_an_error() -> None:
    assert outcomes(parsed(made.FAILED, None))["recording/completes"] == "error"


def test_nothing_compared_is_never_a_pass() -> None:
    assert outcomes(parsed(made.MANIFEST, NOTHING))["recording/coverage"] == "failure"


@pytest.mark.parametrize("text", ["\x00\x1b[31m", "]]>", "<&\"'>", "\ud800"])
def test_any_text_is_valid_xml(text: str) -> None:
    case = Case(classname=text, name=text, outcome="failure", message=text, text=text, output=text)
    SCHEMA.assertValid(etree.fromstring(junit_xml(text, [Suite(name=text, cases=(case,))]).encode()))

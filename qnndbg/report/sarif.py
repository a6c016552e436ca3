"""SARIF 2.1.0: findings at the lines of the user's code, for code scanning and editors.

A finding without a line points to the file that was recorded, where one is known; the QNN tensor, node or
pass is its logical location. Paths are relative, as in the recording.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from urllib.parse import quote

from qnndbg.analyze.rules.catalog import RULES, Rule
from qnndbg.model.recording import Manifest
from qnndbg.model.result import Comparison, Finding
from qnndbg.report.as_json import Json

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
"""The name of the schema; nothing is fetched from there."""
RULES_PAGE = "docs/reference/rules.md"
FAMILIES = {
    "1": "numerics", "2": "encoding", "3": "graph", "4": "passes", "5": "method", "6": "regression",
}  # fmt: skip
"""By the first digit of a rule's number."""
SOURCE_ROOT = "%SRCROOT%"
"""What relative paths are relative to, by the usual name for it."""
FINGERPRINT = "qnndbg/v1"
LINE = re.compile(r"(?P<file>.+?):(?P<line>[1-9]\d*)")


def sarif_report(manifest: Manifest, comparison: Comparison | None) -> str:
    """The findings of a recording as a SARIF log.

    Args:
        manifest: the recording's front page.
        comparison: None if the recording did not get that far, which the log says.
    """
    invocation: dict[str, Json] = {"executionSuccessful": manifest.failure is None}
    if manifest.failure is not None:
        text = f"{manifest.failure.step} failed: {manifest.failure.error}"
        invocation["toolExecutionNotifications"] = [{"level": "error", "message": {"text": text}}]
    about: dict[str, Json] = {
        "precision": manifest.precision,
        "soc": manifest.soc,
        "target": manifest.target,
    }
    if comparison is not None:
        about["verdict"] = comparison.verdict.text
    found = comparison.findings if comparison else ()
    return sarif_log(
        found,
        version=manifest.environment.qnndbg,
        fallback=recorded_file(manifest.target),
        invocation=invocation,
        about=about,
    )


def sarif_log(
    findings: Sequence[Finding],
    *,
    version: str,
    fallback: str,
    invocation: dict[str, Json],
    about: dict[str, Json],
    rules: Sequence[Rule] = RULES,
    page: str = RULES_PAGE,
) -> str:
    """Any findings as a SARIF log of one run.

    Args:
        findings: in the order in which they are written.
        version: of the qnndbg that found them.
        fallback: the file for findings without a line; empty if there is none.
        invocation: how the run went, as SARIF has it.
        about: properties of the run.
        rules: that the findings may be of.
        page: describes the rules.
    """
    numbers = {rule.id: number for number, rule in enumerate(rules)}
    driver: dict[str, Json] = {
        "name": "qnndbg",
        "semanticVersion": version,
        "rules": [_rule(rule, page) for rule in rules],
    }
    run: dict[str, Json] = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, fallback, numbers) for finding in findings],
        "properties": about,
    }
    log: dict[str, Json] = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, sort_keys=True, allow_nan=False) + "\n"


def recorded_file(target: str) -> str:
    """The file in a target such as ``net.py:make``; empty where it is a package or an example."""
    file = target.split(":")[0].split(" ")[0]
    return file if file.endswith(".py") else ""


def _rule(rule: Rule, page: str) -> Json:
    page = f"{page}#{rule.id.lower()}"
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in re.findall(r"[A-Za-z0-9]+", rule.title)),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": f"{rule.title[0].upper()}{rule.title[1:]}. {rule.help}"},
        "help": {"text": f"{rule.help} See {page}.", "markdown": f"{rule.help}\n\nSee `{page}`."},
        "properties": {"docs": page, "tags": [FAMILIES[rule.id[2]]]},
    }


def _result(found: Finding, fallback: str, numbers: dict[str, int]) -> Json:
    more = {"evidence": found.evidence, "help": found.help, "method": found.method, "module": found.module}
    text = f"{found.message}. {found.evidence}." if found.evidence else f"{found.message}."
    number = numbers.get(found.rule)
    return {
        "ruleId": found.rule,
        **({} if number is None else {"ruleIndex": number}),
        "level": found.severity,
        "message": {"text": text},
        "locations": [_location(found, fallback)],
        "partialFingerprints": {FINGERPRINT: f"{found.rule}/{found.method}/{found.where}"},
        "properties": {key: value for key, value in more.items() if value},
    }


def _location(found: Finding, fallback: str) -> Json:
    name = ".".join(part for part in (found.method, found.module, found.where) if part)
    location: dict[str, Json] = {
        "logicalLocations": [{"name": found.where, "fullyQualifiedName": name, "kind": "object"}]
    }
    line = LINE.fullmatch(found.source)
    file = line["file"] if line else found.source or fallback
    if file and not PurePosixPath(file).is_absolute():
        physical: dict[str, Json] = {"artifactLocation": {"uri": quote(file), "uriBaseId": SOURCE_ROOT}}
        if line:
            physical["region"] = {"startLine": int(line["line"])}
        location["physicalLocation"] = physical
    return location

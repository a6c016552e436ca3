"""The schema of the JSON report: the file, the types and the report agree."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

import qnndbg.report
from qnndbg.report.as_json import REPORT_VERSION, json_report
from qnndbg.report.json_schema import schema_text
from tests.golden.formats import made

FILE = Path(qnndbg.report.__file__).with_name("report.schema.json")
PAGE = (Path(__file__).parents[3] / "docs/reference/report-json.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def schema() -> Any:
    return json.loads(FILE.read_text(encoding="utf-8"))


def test_the_file_is_what_the_types_say() -> None:
    if "UPDATE_GOLDEN" in os.environ:
        FILE.write_text(schema_text(), encoding="utf-8")
    assert FILE.read_text(encoding="utf-8") == schema_text()


@pytest.mark.parametrize(
    "recorded",
    [
        (made.MANIFEST, made.COMPARISON, made.PASSES),
        (made.MANIFEST, replace(made.COMPARISON, layers=made.LAYERS[3:]), ()),
        (made.FAILED, None, ()),
    ],
    ids=["made", "nothing compared", "failed"],
)
def test_a_report_fits(recorded: Any, schema: Any) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    report = json.loads(json_report(*recorded))
    jsonschema.Draft202012Validator(schema).validate(report)
    assert report.keys() == schema["properties"].keys()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verdict", "kind"), "fine"),
        (("layers", 0, "tensor"), 3),
        (("report_version",), 2),
        (("ladder",), None),
    ],
)
def test_what_is_none_does_not_fit(path: tuple[Any, ...], value: object, schema: Any) -> None:
    report = json.loads(json_report(made.MANIFEST, made.COMPARISON, made.PASSES))
    place = report
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert not jsonschema.Draft202012Validator(schema).is_valid(report)


def test_every_field_is_always_there(schema: Any) -> None:
    report = json.loads(json_report(made.MANIFEST, made.COMPARISON, made.PASSES))
    layer = schema["$defs"]["LayerResult"]
    assert all(row.keys() == layer["properties"].keys() for row in report["layers"])
    assert set(layer["required"]) == set(layer["properties"])


def test_the_page_names_every_key_and_the_version(schema: Any) -> None:
    assert f"Report version {REPORT_VERSION}." in PAGE
    assert [key for key in schema["properties"] if f"| `{key}` |" not in PAGE] == []

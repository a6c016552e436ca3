"""The schemas of a difference and of a triage: the files, the types and what is written agree."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import qnndbg.report
from qnndbg.gate.policy import Policy
from qnndbg.gate.triage import triage
from qnndbg.recording.store import Recording
from qnndbg.report.diff_formats import DIFFS, TRIAGES
from qnndbg.report.diff_pair import pair_from_recordings
from qnndbg.report.diff_schema import schema_texts
from tests.golden.test_diff import sides

FOLDER = Path(qnndbg.report.__file__).parent
Two = tuple[Recording, Recording]


@pytest.fixture
def two(tmp_path: Path) -> Two:
    return sides(tmp_path)


def validator(name: str) -> Any:
    schema = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_files_are_what_the_types_say() -> None:
    for name, text in schema_texts().items():
        if "UPDATE_GOLDEN" in os.environ:
            (FOLDER / name).write_text(text, encoding="utf-8")
        assert (FOLDER / name).read_text(encoding="utf-8") == text


def test_a_difference_fits(two: Two) -> None:
    for a, b in (two, two[::-1], (two[0], two[0])):
        written = json.loads(DIFFS["json"](pair_from_recordings(a, b), None))
        validator("diff.schema.json").validate(written)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("layers", 0, "status"), "fine"),
        (("schema",), 2),
        (("same",), None),
        (("rungs", 0, "a", "elements"), "many"),
        (("first_parting", "kind"), ""),
    ],
)
def test_what_is_no_difference_does_not_fit(path: tuple[Any, ...], value: object, two: Two) -> None:
    written = json.loads(DIFFS["json"](pair_from_recordings(*two), None))
    place = written
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert not validator("diff.schema.json").is_valid(written)


def test_a_triage_fits_and_what_is_none_does_not(two: Two) -> None:
    for before in (two[0], None):
        found = triage(two[1], before, Policy())
        written = json.loads(TRIAGES["json"](found, two[1]))
        validator("triage.schema.json").validate(written)
    assert not validator("triage.schema.json").is_valid({**written, "passed": "yes"})
    assert not validator("triage.schema.json").is_valid({**written, "schema": 0})

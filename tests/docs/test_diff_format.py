"""The JSON of a difference is described whole."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from qnndbg.model import diff

PAGE = (Path(__file__).parents[2] / "docs/reference/diff-json.md").read_text(encoding="utf-8")
STRUCTS = [
    kind
    for kind in vars(diff).values()
    if inspect.isclass(kind) and issubclass(kind, msgspec.Struct) and kind.__module__ == diff.__name__
]


def section(title: str) -> str:
    found = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"no section {title}"
    return found[1]


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
def test_every_field_is_described(kind: type[msgspec.Struct]) -> None:
    named = set(re.findall(r"`(\w+)`", section(kind.__name__)))
    assert {field.encode_name for field in msgspec.structs.fields(kind)} - named == set()


def test_every_kind_of_parting_and_status_of_a_layer_is_described() -> None:
    assert set(get_args(diff.PartingKind)) <= set(re.findall(r"`([\w-]+)`", section("Parting")))
    assert set(get_args(diff.LayerStatus)) <= set(re.findall(r"`([\w-]+)`", section("LayerDiff")))


def test_version_is_the_current_one() -> None:
    assert f"schema version {diff.DIFF_SCHEMA_VERSION}." in PAGE

"""The JSON Schemas of a difference and of a triage, made from the types that are written out.

``diff.schema.json`` and ``triage.schema.json`` beside this file are what it makes, for whoever validates
without running qnndbg. A test holds them together, and renews the files if run with ``UPDATE_GOLDEN=1``.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from qnndbg.model.diff import DIFF_SCHEMA_VERSION, Diff
from qnndbg.model.triage import TRIAGE_SCHEMA_VERSION, Triage

Schema = dict[str, Any]


def schema_texts() -> dict[str, str]:
    """Name of each file to what it holds."""
    schemas = {
        "diff.schema.json": _schema(Diff, "difference", DIFF_SCHEMA_VERSION),
        "triage.schema.json": _schema(Triage, "triage", TRIAGE_SCHEMA_VERSION),
    }
    return {name: json.dumps(schema, indent=2, sort_keys=True) + "\n" for name, schema in schemas.items()}


def _schema(kind: type[msgspec.Struct], title: str, version: int) -> Schema:
    """Of one type, in the dialect 2020-12."""
    _, defs = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    top = defs.pop(kind.__name__)
    top["properties"]["schema"] = {"const": version}
    top["required"] = sorted({*top["required"], "schema"})
    return {
        **top,
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"qnndbg {title}, version {version}",
        "$defs": defs,
    }

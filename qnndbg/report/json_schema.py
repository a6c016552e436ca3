"""The JSON Schema of the JSON report, made from the types that the report writes out.

``report.schema.json`` beside this file is what it makes, for whoever validates without running qnndbg. A test
holds the two together, and renews the file if it is run with ``UPDATE_GOLDEN=1``.
"""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec

from qnndbg.model.layer_ladder import LayerLadder
from qnndbg.model.recording import Accuracy, Environment, Failure, Input, Method, Stage
from qnndbg.model.result import Counted, Coverage, ErrorMetrics, Finding, LayerResult, Rung, Source, Verdict
from qnndbg.report.as_json import REPORT_VERSION

Schema = dict[str, Any]
TYPES = (
    Accuracy, Counted, Coverage, Environment, ErrorMetrics, Failure, Finding, Input, LayerLadder, LayerResult,
    Method, Rung, Source, Verdict,
)  # fmt: skip
NUMBER_OR_NULL: Schema = {"anyOf": [{"type": "number"}, {"type": "null"}]}
NAMES: Schema = {"type": "array", "items": {"type": "string"}}


def schema_text() -> str:
    """The schema as the file has it."""
    return json.dumps(report_schema(), indent=2, sort_keys=True) + "\n"


def report_schema() -> Schema:
    """The schema, in the dialect 2020-12."""
    _, components = msgspec.json.schema_components(TYPES, ref_template="#/$defs/{name}")
    defs = {name: _strict(part) for name, part in components.items()}
    defs["NoMetrics"] = _no_metrics(defs["ErrorMetrics"])
    defs["Coverage"] = _with(defs["Coverage"], share=NUMBER_OR_NULL)
    metrics = {"anyOf": [_ref("ErrorMetrics"), _ref("NoMetrics")]}
    defs["LayerResult"] = _with(
        defs["LayerResult"],
        accumulated=metrics,
        local=metrics,
        excess=NUMBER_OR_NULL,
        inherited=NUMBER_OR_NULL,
        standing={"enum": ["made here", "inherited", None]},
    )
    defs["StagePasses"] = _object(
        run={"type": "integer"},
        changed=NAMES,
        claimed={"type": "integer"},
        failed={"type": "object", "additionalProperties": {"type": "string"}},
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"qnndbg report, version {REPORT_VERSION}",
        **_top(),
        "$defs": defs,
    }


def _top() -> Schema:
    stages = {stage: _ref("StagePasses") for stage in get_args(Stage)}
    return _object(
        report_version={"const": REPORT_VERSION},
        schema={"type": "integer", "description": "Schema version of the recording."},
        target={"type": "string"},
        precision={"type": "string"},
        soc={"type": "string"},
        complete={"type": "boolean"},
        failure=_optional("Failure"),
        verdict=_ref("Verdict"),
        ladder=_list("Rung"),
        layers=_list("LayerResult"),
        layer_ladders=_list("LayerLadder"),
        sources=_list("Source"),
        findings=_list("Finding"),
        coverage=_ref("Coverage"),
        accuracy=_optional("Accuracy"),
        inputs=_list("Input"),
        methods=_list("Method"),
        notes=NAMES,
        passes={"type": "object", "properties": stages, "additionalProperties": False},
        environment=_ref("Environment"),
    )


def _object(**properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": True,
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _optional(name: str) -> Schema:
    return {"anyOf": [_ref(name), {"type": "null"}]}


def _list(name: str) -> Schema:
    return {"type": "array", "items": _ref(name)}


def _strict(part: Schema) -> Schema:
    """A type of the model, with nothing left out: defaults are for recordings, which do leave out."""
    if part.get("type") == "array" and "title" in part:  # a TensorRef, which the report writes as an object
        names = msgspec.structs.fields(_ARRAYS[part["title"]])
        return _object(**{f.name: item for f, item in zip(names, part["prefixItems"], strict=True)})
    properties = {name: _without_default(value) for name, value in part["properties"].items()}
    return {**part, **_object(**properties)}


_ARRAYS = {"TensorRef": msgspec.structs.fields(Input)[1].type}


def _without_default(value: Schema) -> Schema:
    return {key: item for key, item in value.items() if key != "default"}


def _with(part: Schema, **properties: Schema) -> Schema:
    return {**part, **_object(**{**part["properties"], **properties})}


def _no_metrics(metrics: Schema) -> Schema:
    return {**_object(**{name: {"type": "null"} for name in metrics["properties"]}), "title": "NoMetrics"}

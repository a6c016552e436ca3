"""What the README and the docs state about the code is what the code does."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

import qnndbg
from qnndbg import errors
from qnndbg.model import attribution, graph, layer_ladder, recording, result

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FORMAT = (ROOT / "docs/reference/recording-format.md").read_text(encoding="utf-8")
STRUCTS = [
    kind
    for module in (recording, graph, result, attribution, layer_ladder)
    for kind in vars(module).values()
    if inspect.isclass(kind) and issubclass(kind, msgspec.Struct) and kind.__module__ == module.__name__
]
ARGUMENTS = (graph.Ref, graph.Atom, graph.Slice, graph.Seq)


def section(page: str, title: str) -> str:
    """The text under a heading, up to the next heading of any level."""
    found = re.search(rf"^#+ {title}$(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, f"no section {title}"
    return found[1]


def codes(page: str) -> dict[int, str]:
    return {int(code): rest for code, rest in re.findall(r"^\| (\d+) \|(.*)\|$", page, re.MULTILINE)}


@pytest.mark.parametrize("kind", [k for k in STRUCTS if k not in ARGUMENTS], ids=lambda kind: kind.__name__)
def test_every_field_of_a_recording_is_described(kind: type[msgspec.Struct]) -> None:
    named = set(re.findall(r"`(\w+)`", section(FORMAT, kind.__name__)))
    assert {field.encode_name for field in msgspec.structs.fields(kind)} - named == set()


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
def test_no_described_field_is_gone(kind: type[msgspec.Struct]) -> None:
    if kind in ARGUMENTS:
        return
    rows = re.findall(r"^\| (`.*?) \|", section(FORMAT, kind.__name__).split("\n\n| runner")[0], re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named - {field.encode_name for field in msgspec.structs.fields(kind)} == set()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (graph.Ref("x"), '["ref", node]'),
        (graph.Atom("dtype", "float32"), '["atom", kind, text]'),
        (graph.Slice(None, 1, None), '["slice", start, stop, step]'),
        (graph.Seq((1, 2)), '["seq", items]'),
    ],
)
def test_arguments_are_written_as_described(value: graph.Arg, written: str) -> None:
    kind = msgspec.json.decode(msgspec.json.encode(value))[0]
    assert written in section(FORMAT, "Arguments")
    assert written.startswith(f'["{kind}"')


def test_schema_version_is_the_current_one() -> None:
    assert f"Schema version {recording.SCHEMA_VERSION}." in FORMAT


def test_exit_codes_are_those_of_the_errors() -> None:
    described = codes((ROOT / "docs/reference/exit-codes.md").read_text(encoding="utf-8"))
    raised = {
        kind.__name__: kind.exit_code
        for kind in vars(errors).values()
        if inspect.isclass(kind) and issubclass(kind, errors.QnndbgError)
    }
    listed = {name: code for code, row in described.items() for name in re.findall(r"`(\w+Error)`", row)}
    assert listed == raised
    assert codes((ROOT / "README.md").read_text(encoding="utf-8")).keys() <= described.keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert [t for t in targets if "://" not in t and not (page.parent / t).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page: Path) -> None:
    known = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = re.findall(r"(?:^\$ |`)make (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) - known == set()


def test_pinned_qnn_package_is_the_one_described() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = [pin.split(";")[0] for pin in project["optional-dependencies"]["qnn"]]
    assert "`onnxruntime-qnn==2.5.0`" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "onnxruntime-qnn==2.5.0" in pins


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_public_names_exist(page: Path) -> None:
    named = re.findall(r"\bqnndbg\.([A-Z]\w+)", page.read_text(encoding="utf-8"))
    assert [name for name in named if not hasattr(qnndbg, name)] == []

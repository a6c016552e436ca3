"""Encoding, digests and the refusal of what does not fit; hostile input included."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import tracemalloc
from pathlib import Path

import msgspec
import pytest

from qnndbg.errors import RecordingError, SchemaError
from qnndbg.model.graph import Atom, Graph, Node, Output, Ref, Seq, Slice
from qnndbg.model.recording import SCHEMA_VERSION, Environment, Manifest
from qnndbg.recording import schema

MANIFEST = Manifest(
    target="net.py:make",
    precision="16a8w",
    soc="SM8650",
    environment=Environment(
        qnndbg="0.1.0", python="3.11.9", host="Linux x86_64", packages={"torch": "2.13.0"}
    ),
)


def graph(*nodes: Node, outputs: tuple[Output, ...] = ()) -> Graph:
    return Graph(nodes=nodes, outputs=outputs)


def test_equal_values_give_equal_bytes() -> None:
    left = Node(name="x", op="call_function", kwargs={"a": 1, "b": 2})
    right = Node(name="x", op="call_function", kwargs={"b": 2, "a": 1})
    assert schema.encode(left) == schema.encode(right)


def test_arguments_are_plain_json() -> None:
    args = (
        None,
        True,
        3,
        0.5,
        "sum",
        Ref("x"),
        Atom("dtype", "float32"),
        Slice(0, None, 2),
        Seq((Ref("y"), 1)),
    )
    written = json.loads(schema.encode(Node(name="n", op="call_function", args=args)))["args"]
    assert written == [
        *(None, True, 3, 0.5, "sum", ["ref", "x"], ["atom", "dtype", "float32"]),
        *(["slice", 0, None, 2], ["seq", [["ref", "y"], 1]]),
    ]


def test_numbers_keep_their_kind_and_their_bits() -> None:
    numbers = (1, 1.0, True, -0.0, 0.1, 2**63 - 1, -(2**63), 1.7976931348623157e308, 5e-324)
    args = schema.decode(schema.encode(Node(name="n", op="output", args=numbers)), Node, "a graph").args
    assert [(type(value), value) for value in args] == [(type(value), value) for value in numbers]
    assert math.copysign(1.0, args[3]) == -1.0  # type: ignore[arg-type]


def test_files_for_people_are_indented_and_hold_the_same() -> None:
    data = schema.encode_pretty(MANIFEST)
    assert data.startswith(b'{\n  "')
    assert data.endswith(b"}\n")
    assert schema.decode_manifest(data) == MANIFEST


def test_digest_is_blake2b_of_the_parts() -> None:
    expected = hashlib.blake2b(b"one two", digest_size=16).hexdigest()
    assert schema.digest(b"one", memoryview(b" two")) == expected
    assert schema.DIGEST.fullmatch(expected)


@pytest.mark.parametrize(
    "text",
    ["", "0" * 31, "0" * 33, "0" * 32 + "\n", "A" * 32, "../" * 10 + "aa", "/etc/passwd" + "0" * 21],
)
def test_what_is_no_digest(text: str) -> None:
    assert schema.DIGEST.fullmatch(text) is None


def test_manifest_cut_off_anywhere_is_refused() -> None:
    data = schema.encode_pretty(MANIFEST).rstrip()
    for length in range(len(data)):
        with pytest.raises(RecordingError, match=r"manifest\.json") as caught:
            schema.decode_manifest(data[:length])
        assert caught.value.hint


@pytest.mark.parametrize(
    "change",
    [
        {"target": None},
        {"target": 3},
        {"environment": []},
        {"complete": "yes"},
        {"inputs": {}},
        {"inputs": [{"name": "x", "tensor": ["0" * 32, "float32"]}]},
        {"notes": [1]},
        {"schema": "1"},
        {"schema": 1.5},
        {"accuracy": {"samples": 1}},
    ],
)
def test_manifest_of_wrong_types_is_refused(change: dict[str, object]) -> None:
    data = msgspec.json.encode(msgspec.to_builtins(MANIFEST) | change)
    with pytest.raises(RecordingError, match=r"manifest\.json does not hold"):
        schema.decode_manifest(data)


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"{}", b"\xff\xfe", b'{"schema": 1}', b"PK\x03\x04"])
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(RecordingError) as caught:
        schema.decode_manifest(data)
    assert not isinstance(caught.value, SchemaError)


@pytest.mark.parametrize("rest", [{}, {"target": {"anything": "else"}}])
def test_newer_schema_is_told_apart_whatever_else_it_holds(rest: dict[str, object]) -> None:
    data = msgspec.json.encode({"schema": SCHEMA_VERSION + 1, **rest})
    with pytest.raises(SchemaError, match=f"schema {SCHEMA_VERSION + 1}.*up to {SCHEMA_VERSION}") as caught:
        schema.decode_manifest(data)
    assert "pip install" in caught.value.hint


def test_fields_of_a_later_minor_version_are_passed_over() -> None:
    data = msgspec.json.encode(msgspec.to_builtins(MANIFEST) | {"later": [1, 2]})
    assert schema.decode_manifest(data) == MANIFEST


@pytest.mark.parametrize(
    "data",
    [
        b'{"nodes":[],"outputs":[{"value":["eval","1"]}]}',
        b'{"nodes":[],"outputs":[{"value":{"ref":"x"}}]}',
        b'{"nodes":[],"outputs":[{"value":["atom","code","1"]}]}',
        b'{"nodes":[],"outputs":[{"value":1e999}]}',
        b'{"nodes":[{"name":"x","op":"call_anything"}],"outputs":[]}',
        b'{"nodes":[{"name":"x","op":"output","args":3}],"outputs":[]}',
        b'{"nodes":[{"name":"\xff","op":"output"}],"outputs":[]}',
        b'{"nodes":[{"name":"x","op":"output","outputs":[[[1.5],"float32"]]}],"outputs":[]}',
        b'{"nodes":[{"name":"x","op":"output","encoding":{"scales":[null],"zero_points":[0],'
        b'"qmin":0,"qmax":255,"dtype":"uint8"}}],"outputs":[]}',
        b'{"nodes":[],"outputs":[{"value":' + b'["seq",[' * 20_000 + b"]]" * 20_000 + b"}]}",
        b"[" * 100_000,
    ],
)
def test_what_is_no_graph_is_refused(data: bytes) -> None:
    with pytest.raises(RecordingError, match="graph 1 does not hold"):
        schema.decode(data, Graph, "graph 1")


def test_packed_files_are_equal_for_equal_data(tmp_path: Path) -> None:
    paths = tmp_path / "one.json.gz", tmp_path / "other name.json.gz"
    for path in paths:
        path.write_bytes(schema.gzipped(b"data " * 100))
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].read_bytes()[4:8] == bytes(4)  # where gzip keeps the time
    assert gzip.decompress(paths[0].read_bytes()) == schema.read_gzip(paths[0]) == b"data " * 100


def test_packed_file_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(schema.gzipped(bytes(1000)))
    monkeypatch.setattr(schema, "MAX_JSON_BYTES", 1000)
    assert schema.read_gzip(path) == bytes(1000)
    monkeypatch.setattr(schema, "MAX_JSON_BYTES", 999)
    with pytest.raises(RecordingError, match=r"bomb\.json\.gz unpacks to more than 999 bytes"):
        schema.read_gzip(path)


def test_bomb_is_not_unpacked_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(schema.gzipped(bytes(32 << 20)))
    monkeypatch.setattr(schema, "MAX_JSON_BYTES", 1000)
    tracemalloc.start()
    with pytest.raises(RecordingError):
        schema.read_gzip(path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("damage", [b"", b"not packed", b"\x1f\x8b", b"\x1f\x8b\x08\x00" + bytes(5)])
def test_what_is_not_packed_is_refused(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "graph.json.gz"
    path.write_bytes(damage)
    with pytest.raises(RecordingError):
        schema.decode(schema.read_gzip(path), Graph, path.name)


def test_missing_packed_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"gone\.json\.gz cannot be unpacked"):
        schema.read_gzip(tmp_path / "gone.json.gz")


def test_packed_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph.json.gz"
    data = gzip.compress(json.dumps({"nodes": [], "outputs": []}).encode(), mtime=0)
    for length in range(1, len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(RecordingError):
            schema.read_gzip(path)


def test_packed_file_with_a_flipped_bit_is_refused_or_unharmed(tmp_path: Path) -> None:
    path = tmp_path / "graph.json.gz"
    whole = json.dumps(
        {"nodes": [{"name": f"n{i}", "op": "output"} for i in range(20)], "outputs": []}
    ).encode()
    data = gzip.compress(whole, mtime=0)
    for position in range(len(data)):
        path.write_bytes(data[:position] + bytes([data[position] ^ 4]) + data[position + 1 :])
        try:
            assert schema.read_gzip(path) == whole
        except RecordingError:
            continue

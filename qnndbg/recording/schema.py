"""JSON and digests of the model types, and the refusal of what does not fit them."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec.structs import replace

from qnndbg.errors import RecordingError, SchemaError
from qnndbg.model.graph import Arg, Graph, Origin, Ref, Seq, Slice
from qnndbg.model.recording import SCHEMA_VERSION, Manifest

T = TypeVar("T")

DIGEST = re.compile(r"[0-9a-f]{32}")
MAX_JSON_BYTES = 1 << 30
"""A compressed file that unpacks to more than this is refused."""


def digest(*parts: bytes | memoryview) -> str:
    """The 128-bit BLAKE2b digest of the parts, in hexadecimal."""
    h = hashlib.blake2b(digest_size=16)
    for part in parts:
        h.update(part)
    return h.hexdigest()


def encode(value: object) -> bytes:
    """Compact JSON; equal values give equal bytes."""
    return msgspec.json.encode(value, order="deterministic")


def encode_pretty(value: object) -> bytes:
    """Indented JSON for the files that people read."""
    return msgspec.json.format(encode(value), indent=2) + b"\n"


def decode(data: bytes, kind: type[T], name: str) -> T:
    """Parse and validate.

    Args:
        data: JSON.
        kind: the model type that it must fit.
        name: the file's name, for the message.

    Raises:
        RecordingError: it is no JSON, or does not fit.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RecordingError(
            f"{name} does not hold what a recording must hold: {error}",
            "the file is damaged or was not written by qnndbg; record again",
        ) from error


class _Front(msgspec.Struct):
    """The one field that every schema version has."""

    schema: Annotated[int, msgspec.Meta(ge=1)]


def decode_manifest(data: bytes, name: str = "manifest.json") -> Manifest:
    """Parse the manifest; a newer schema is told apart from a damaged file.

    Args:
        data: JSON.
        name: the file's name, for the message.

    Raises:
        SchemaError: a newer qnndbg wrote it.
        RecordingError: it is damaged.
    """
    version = decode(data, _Front, name).schema
    if version > SCHEMA_VERSION:
        raise SchemaError(
            f"{name} has schema {version}, and this qnndbg reads up to {SCHEMA_VERSION}",
            "update qnndbg: pip install --upgrade qnndbg",
        )
    return decode(data, Manifest, name)


def graph_digest(graph: Graph) -> str:
    """The key under which a graph is stored: everything in it counts, names and origins too."""
    return digest(encode(graph))


def structure_digest(graph: Graph) -> str:
    """Digest of what a graph computes: ops, arguments, edges, dtypes, shapes, encodings, constants.

    Nodes are numbered in their order, so a graph whose nodes were only renamed, or that only got
    other debug handles or origins, has the same digest.
    """
    number = {node.name: str(i) for i, node in enumerate(graph.nodes)}
    bare = []
    for node in graph.nodes:
        target = node.target if node.op == "call_function" else ""
        anonymous = replace(
            node,
            name="",
            target=target,
            origin=Origin(),
            handle=(),
            tensors=(),
            args=(),
            kwargs={},
            requantize={},
        )
        bare.append(
            (
                anonymous,
                [_numbered(arg, number) for arg in node.args],
                {key: _numbered(arg, number) for key, arg in node.kwargs.items()},
                {number.get(user, user): params for user, params in node.requantize.items()},
            )
        )
    outputs = [
        (output.role, _numbered(output.value, number), number.get(output.target, output.target))
        for output in graph.outputs
    ]
    return digest(encode((bare, outputs, graph.stored_layout)))


def _numbered(arg: Arg, number: dict[str, str]) -> Arg:
    """The argument with every reference to a node replaced by one to its number."""
    if isinstance(arg, Ref):
        return Ref(number.get(arg.node, "?"))
    if isinstance(arg, Seq):
        return Seq(tuple(_numbered(item, number) for item in arg.items))
    if isinstance(arg, Slice):
        return Slice(*(_numbered(part, number) for part in (arg.start, arg.stop, arg.step)))
    return arg


def check_regular(path: Path) -> None:
    """Refuse a pipe or a device in a file's place: reading it would never end.

    Raises:
        RecordingError: one of these is there.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):  # a folder fails at once
        raise RecordingError(f"{path.name} is no regular file", "the recording is damaged; record again")


def read_gzip(path: Path) -> bytes:
    """Unpack a file of a recording.

    Raises:
        RecordingError: it is damaged, or unpacks to more than ``MAX_JSON_BYTES``.
    """
    check_regular(path)
    try:
        with gzip.open(path) as file:
            data = file.read(MAX_JSON_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise RecordingError(f"{path.name} cannot be unpacked: {error}", "record again") from error
    if len(data) > MAX_JSON_BYTES:
        raise RecordingError(f"{path.name} unpacks to more than {MAX_JSON_BYTES} bytes", "record again")
    return data


def gzipped(data: bytes) -> bytes:
    """Packed with no clock and no name inside, so that equal data gives equal files."""
    return gzip.compress(data, compresslevel=6, mtime=0)

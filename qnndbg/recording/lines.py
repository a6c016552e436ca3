"""Structs as lines of JSON, in the forms that a baseline is written in: objects, tables, nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec
from msgspec import Struct

from qnndbg.errors import RecordingError
from qnndbg.model.graph import Node, QuantParams
from qnndbg.model.result import ErrorMetrics
from qnndbg.recording import schema
from qnndbg.recording.compact import Json, encoding_from, encoding_text, node_from, node_row, refused

T = TypeVar("T", bound=Struct)

_METRICS = ErrorMetrics.__struct_fields__
_ERRORS = ("accumulated", "local", "against_eager", "against_previous")
_ENCODINGS = ("encoding", "reference_encoding")
_AS_BEFORE = "="
"""An encoding that is the one before it in the row."""


def objects(values: Iterable[Struct]) -> bytes:
    """An object a line."""
    return b"".join(schema.encode(value) + b"\n" for value in values)


def read_objects(kind: type[T], data: bytes, name: str) -> tuple[T, ...]:
    """The objects of a file.

    Raises:
        RecordingError: a line does not hold one.
    """
    return tuple(schema.decode(line, kind, name) for line in data.splitlines())


def table(kind: type[Struct], values: Iterable[Struct], leave_out: tuple[str, ...] = ()) -> bytes:
    """The names of the fields, then an array a line, in which errors are arrays and encodings short."""
    columns = [field for field in kind.__struct_fields__ if field not in leave_out]
    head = {"fields": columns, **({"error": _METRICS} if {*columns} & {*_ERRORS} else {})}
    rows = [_row(value, columns) for value in values]
    return b"".join(schema.encode(row) + b"\n" for row in [head, *rows])


def _row(value: Struct, columns: list[str]) -> list[Json]:
    row: list[Json] = []
    last: QuantParams | None = None
    for column in columns:
        cell: Json = getattr(value, column)
        if isinstance(cell, ErrorMetrics):
            cell = [getattr(cell, field) for field in _METRICS]
        elif isinstance(cell, QuantParams):
            cell, last = (_AS_BEFORE if cell == last else encoding_text(cell)), cell
        row.append(cell)
    return row


def read_table(kind: type[T], data: bytes, name: str, *, numbered: str = "") -> tuple[T, ...]:
    """The structs of a table.

    Args:
        kind: what they are.
        data: the file.
        name: its name, for the message.
        numbered: a field that was left out and is the number of the row.

    Raises:
        RecordingError: a line does not hold one.
    """
    if not data:
        raise RecordingError(f"{name} is empty", "restore the file")
    first, *rest = data.splitlines()
    head = schema.decode(first, dict[str, list[str]], name)
    found = []
    for number, line in enumerate(rest):
        row = schema.decode(line, list[object], name)
        fields = {**_fields(head, row, name), **({numbered: number} if numbered else {})}
        try:
            found.append(msgspec.convert(fields, kind, from_attributes=True))
        except msgspec.ValidationError as error:
            raise refused(name, error) from error
    return tuple(found)


def _fields(head: dict[str, list[str]], row: list[Json], name: str) -> dict[str, Json]:
    fields = _named(head.get("fields", []), row, name)
    for key in _ERRORS:
        if isinstance(error := fields.get(key), list):
            fields[key] = _named(head.get("error", []), error, name)
    last: Json = None
    for key in _ENCODINGS:
        if key in fields:
            try:
                encoding = last if fields[key] == _AS_BEFORE else encoding_from(fields[key])
            except ValueError as error:
                raise refused(name, error) from error
            fields[key], last = encoding, encoding
    return fields


def _named(columns: list[str], row: list[Json], name: str) -> dict[str, Json]:
    if len(columns) != len(row):
        raise RecordingError(
            f"{name} has a line of {len(row)} fields, not {len(columns)}", "restore the file"
        )
    return dict(zip(columns, row, strict=True))


def nodes(values: Iterable[Node]) -> bytes:
    """A node a line."""
    return b"".join(schema.encode(node_row(node)) + b"\n" for node in values)


def read_nodes(data: bytes, name: str) -> tuple[Node, ...]:
    """The nodes of such lines.

    Raises:
        RecordingError: a line does not hold one.
    """
    try:
        return tuple(node_from(schema.decode(line, list[object], name)) for line in data.splitlines())
    except (ValueError, TypeError, AttributeError) as error:  # of a line that has another form
        raise refused(name, error) from error

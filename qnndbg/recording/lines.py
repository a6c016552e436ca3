"""Structs as lines of JSON, in the forms that a baseline is written in: objects, tables, nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from qnndbg.errors import RecordingError
from qnndbg.model.graph import Arg, Node, TensorSpec
from qnndbg.model.result import ErrorMetrics
from qnndbg.recording import schema

T = TypeVar("T", bound=Struct)
Row = list[object]

_METRICS = ErrorMetrics.__struct_fields__
_ERRORS = ("accumulated", "local", "against_eager", "against_previous")


class _NodeLine(Struct, frozen=True, array_like=True):
    """A node: what a reader of the file looks for first, then the rest."""

    name: str
    target: str
    args: tuple[Arg, ...]
    outputs: tuple[TensorSpec | None, ...]
    rest: Node


def objects(values: Iterable[Struct]) -> bytes:
    """An object a line."""
    return b"".join(schema.encode(value) + b"\n" for value in values)


def read_objects(kind: type[T], data: bytes, name: str) -> tuple[T, ...]:
    """The objects of a file, or of a part of it.

    Raises:
        RecordingError: a line does not hold one.
    """
    return tuple(schema.decode(line, kind, name) for line in data.splitlines())


def table(kind: type[Struct], values: Sequence[Struct], leave_out: tuple[str, ...] = ()) -> bytes:
    """The names of the fields, then an array a line."""
    columns = [field for field in kind.__struct_fields__ if field not in leave_out]
    rows = [[getattr(value, column) for column in columns] for value in values]
    return b"".join(schema.encode(row) + b"\n" for row in [columns, *rows])


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
    first, *rest = data.splitlines() or [b"[]"]
    columns = schema.decode(first, list[str], name)
    found = []
    for number, line in enumerate(rest):
        fields = _fields(columns, schema.decode(line, list[object], name), name)
        found.append(_convert({**fields, **({numbered: number} if numbered else {})}, kind, name))
    return tuple(found)


def errors(kind: type[Struct], values: Iterable[Struct]) -> bytes:
    """A table of what holds errors, which are arrays, too."""
    fields = kind.__struct_fields__
    head = {"fields": fields, "error": _METRICS}
    rows = [[_shortened(getattr(value, field)) for field in fields] for value in values]
    return b"".join(schema.encode(row) + b"\n" for row in [head, *rows])


def _shortened(value: object) -> object:
    return [getattr(value, field) for field in _METRICS] if isinstance(value, ErrorMetrics) else value


def read_errors(kind: type[T], data: bytes, name: str) -> tuple[T, ...]:
    """The structs of such a table.

    Raises:
        RecordingError: a line does not hold one.
    """
    first, *rest = data.splitlines() or [b"{}"]
    head = schema.decode(first, dict[str, list[str]], name)
    found = []
    for line in rest:
        fields = _fields(head.get("fields", []), schema.decode(line, list[object], name), name)
        for key in _ERRORS:
            if isinstance(error := fields.get(key), list):
                fields[key] = _fields(head.get("error", []), error, name)
        found.append(_convert(fields, kind, name))
    return tuple(found)


def nodes(values: Iterable[Node]) -> bytes:
    """A node a line; the defaults of what is said before are left out of the rest."""
    rows = (
        _NodeLine(
            name=node.name,
            target=node.target,
            args=node.args,
            outputs=node.outputs,
            rest=replace(node, name="", target="", args=(), outputs=()),
        )
        for node in values
    )
    return objects(rows)


def read_nodes(data: bytes, name: str) -> tuple[Node, ...]:
    """The nodes of such lines.

    Raises:
        RecordingError: a line does not hold one.
    """
    return tuple(
        replace(line.rest, name=line.name, target=line.target, args=line.args, outputs=line.outputs)
        for line in read_objects(_NodeLine, data, name)
    )


def _fields(columns: list[str], row: Row, name: str) -> dict[str, object]:
    if len(columns) != len(row):
        raise RecordingError(
            f"{name} has a line of {len(row)} fields, not {len(columns)}", "restore the file"
        )
    return dict(zip(columns, row, strict=True))


def _convert(fields: dict[str, object], kind: type[T], name: str) -> T:
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise RecordingError(f"{name} does not hold what it must: {error}", "restore the file") from error

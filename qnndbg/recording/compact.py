"""Short forms of what a baseline has very many of: encodings, arguments, nodes."""

from __future__ import annotations

from typing import Any

import msgspec

from qnndbg.errors import RecordingError
from qnndbg.model.graph import Arg, Atom, Node, QuantParams, Ref, Seq, Slice, TensorSpec

Json = Any
"""What ``json`` makes of a line; it is checked where it becomes a struct."""

_PREFIX = ("quantized_decomposed.", "qd.")
"""Of half of all targets, and its short form."""
_REFERENCE = "%"
_SLICE = "slice"
_TEXT = "text"
"""Of a text that looks like a reference."""
_SHORT = {"module_path": "module", "module_class": "class", "created_by": "by", "ancestors": "from"}
"""Field of an origin to its key in a line."""
_PLAIN = ("multiple", "layout_permute", "quantized_io", "role")


def encoding_text(encoding: QuantParams | None) -> Json:
    """Such as ``0.02 128 0 255 uint8`` for one scale; else an object."""
    if encoding is None:
        return None
    (scales, zeros) = encoding.scales, encoding.zero_points
    if (len(scales), len(zeros)) != (1, 1) or encoding != QuantParams(
        scales=scales, zero_points=zeros, qmin=encoding.qmin, qmax=encoding.qmax, dtype=encoding.dtype
    ):
        return msgspec.to_builtins(encoding)
    return f"{scales[0]!r} {zeros[0]} {encoding.qmin} {encoding.qmax} {encoding.dtype}"


def encoding_from(text: Json) -> QuantParams | None:
    """The encoding that such a text stands for.

    Raises:
        ValueError: it stands for none.
    """
    if not isinstance(text, str):
        return msgspec.convert(text, QuantParams | None)
    scale, zero, low, high, dtype = text.split(" ")
    return QuantParams(
        scales=(float(scale),), zero_points=(int(zero),), qmin=int(low), qmax=int(high), dtype=dtype
    )


def arg_form(arg: Arg) -> Json:
    """An argument: ``%name`` for a node, an array for a sequence, an object for what is no JSON."""
    if isinstance(arg, Ref):
        return _REFERENCE + arg.node
    if isinstance(arg, str):
        return {_TEXT: arg} if arg.startswith(_REFERENCE) else arg
    if isinstance(arg, Seq):
        return [arg_form(item) for item in arg.items]
    if isinstance(arg, Slice):
        return {_SLICE: [arg_form(part) for part in (arg.start, arg.stop, arg.step)]}
    return {arg.kind: arg.text} if isinstance(arg, Atom) else arg


def arg_from(form: Json) -> Arg:
    """The argument that such a form stands for."""
    if isinstance(form, str):
        return Ref(form[1:]) if form.startswith(_REFERENCE) else form
    if isinstance(form, list):
        return Seq(tuple(map(arg_from, form)))
    if isinstance(form, dict):
        ((kind, value),) = form.items()
        if kind == _TEXT:
            return msgspec.convert(value, str)
        return Slice(*map(arg_from, value)) if kind == _SLICE else _atom(kind, value)
    return msgspec.convert(form, None | bool | int | float)


def _atom(kind: str, text: str) -> Atom:
    return msgspec.convert(["atom", kind, text], Atom)


def _usual_op(role: str) -> str:
    """What a node is if nothing else is said."""
    return "placeholder" if role else "call_function"


def node_row(node: Node) -> list[Json]:
    """Name, target (null if it is the name), arguments, outputs; then what else is not the default."""
    target = None if node.target == node.name else node.target.replace(*_PREFIX, 1)
    specs = [None if spec is None else [spec.dtype, *spec.shape] for spec in node.outputs]
    rest: dict[str, Json] = {} if node.op == _usual_op(node.role) else {"op": node.op}
    if node.kwargs:
        rest["kwargs"] = {key: arg_form(value) for key, value in node.kwargs.items()}
    if node.encoding:
        rest["encoding"] = encoding_text(node.encoding)
    if node.requantize:
        rest["requantize"] = {user: encoding_text(value) for user, value in node.requantize.items()}
    if node.axis_order is not None:
        rest["axis_order"] = node.axis_order
    if node.constant is not None:
        constant = node.constant
        whole = [TensorSpec(constant.shape, constant.dtype)] != [*node.outputs]
        rest["constant"] = constant if whole else constant.digest
    rest |= {key: value for key in _PLAIN if (value := getattr(node, key))}
    rest |= {short: value for key, short in _SHORT.items() if (value := getattr(node.origin, key))}
    return [node.name, target, [arg_form(arg) for arg in node.args], specs, *([rest] if rest else [])]


def node_from(row: Json) -> Node:
    """The node of such a row.

    Raises:
        ValueError: it is none.
    """
    name, target, args, specs, *more = row
    rest = dict(more[0]) if more else {}
    origin = {key: rest.pop(short) for key, short in _SHORT.items() if short in rest}
    made: dict[str, Json] = {
        "op": _usual_op(rest.get("role", "")),
        **{key: rest.pop(key) for key in ("op", "axis_order", *_PLAIN) if key in rest},
        "name": name,
        "target": target.replace(*_PREFIX[::-1], 1) if target is not None else name,
        "origin": origin,
    }
    constant = rest.pop("constant", None)
    made["constant"] = [constant, specs[0][0], specs[0][1:]] if isinstance(constant, str) else constant
    node = msgspec.convert(made, Node)
    read = {
        "args": tuple(map(arg_from, args)),
        "kwargs": {key: arg_from(value) for key, value in rest.pop("kwargs", {}).items()},
        "outputs": tuple(_spec(spec) for spec in specs),
        "encoding": encoding_from(rest.pop("encoding", None)),
        "requantize": {user: encoding_from(v) for user, v in rest.pop("requantize", {}).items()},
    }
    if rest:
        raise ValueError(f"unknown {', '.join(sorted(rest))}")
    return msgspec.structs.replace(node, **read)


def _spec(spec: Json) -> TensorSpec | None:
    return None if spec is None else msgspec.convert([spec[1:], spec[0]], TensorSpec)


def refused(name: str, error: Exception) -> RecordingError:
    """A line that does not hold what it must."""
    return RecordingError(f"{name} does not hold what it must: {error}", "restore the file")

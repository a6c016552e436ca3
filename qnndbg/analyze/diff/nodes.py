"""What is different about one node of two graphs."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from msgspec.structs import replace

from qnndbg.analyze.diff.form import literals
from qnndbg.model.diff import Change, Place, Scalar
from qnndbg.model.graph import Arg, Atom, Node, QuantParams, Ref, Seq, Slice, TensorSpec

_QUANTISE = "quantized_decomposed."
_ENCODING_ARGS = {
    "per_tensor": ("scale", "zero point", "qmin", "qmax", "stored dtype"),
    "per_channel": ("scale", "zero point", "axis", "qmin", "qmax", "stored dtype"),
}
"""What the arguments after the first of a quantise or dequantise op are."""
_LAYOUT = ("axis_order", "layout_permute", "quantized_io", "role")
_layout = attrgetter(*_LAYOUT)
_GRID = ("scheme", "stored dtype", "qmin", "qmax", "axis", "block size")
_grid = attrgetter("scheme", "dtype", "qmin", "qmax", "axis", "block_size")


def place_of(node: Node) -> Place:
    """A node as people find it again."""
    origin = node.origin
    return Place(
        name=node.name,
        op=node.target if node.op == "call_function" else node.role or node.op,
        module=origin.module_path,
        source=origin.source,
        created_by=origin.created_by,
    )


def node_changes(a: Node, b: Node) -> Iterator[Change]:
    """All that differs but the edges: op, literals, outputs, encoding, layout, constant."""
    if a.op != b.op or (a.target != b.target and a.op == "call_function"):
        yield Change(what="op", a=place_of(a).op, b=place_of(b).op)
    yield from _argument_changes(a, b)
    if a.outputs != b.outputs:
        yield from _output_changes(a.outputs, b.outputs)
    yield from encoding_changes(a.encoding, b.encoding)
    for what, left, right in zip(_LAYOUT, _layout(a), _layout(b), strict=True):
        if left != right:
            yield Change(what=what.replace("_", " "), a=_scalar(left), b=_scalar(right))
    left_digest, right_digest = (node.constant.digest if node.constant else None for node in (a, b))
    if left_digest != right_digest:
        yield Change(what="constant", a=left_digest, b=right_digest)
    if a.requantize or b.requantize:
        yield from _requantised_changes(a, b)


def encoding_changes(a: QuantParams | None, b: QuantParams | None) -> Iterator[Change]:
    """How two encodings differ; one that a side lacks is one change."""
    if a is None or b is None:
        if a is not b:
            yield Change(what="encoding", a=_encoding(a), b=_encoding(b))
        return
    for what, left, right in zip(_GRID, _grid(a), _grid(b), strict=True):
        if left != right:
            yield Change(what=what, a=_scalar(left), b=_scalar(right))
    yield from _many("scale", a.scales, b.scales)
    yield from _many("zero point", a.zero_points, b.zero_points)


def _requantised_changes(a: Node, b: Node) -> Iterator[Change]:
    """In which other encodings the value is read."""
    left, right = (sorted(node.requantize.values(), key=repr) for node in (a, b))
    if len(left) != len(right):
        yield Change(what="requantised readers", a=len(left), b=len(right))
        return
    for one, other in zip(left, right, strict=True):
        for change in encoding_changes(one, other):
            yield replace(change, what=f"requantised {change.what}")


def _many(what: str, a: tuple[float, ...], b: tuple[float, ...]) -> Iterator[Change]:
    """One change of however many values, shown by the one that changed most."""
    if a == b:
        return
    if len(a) != len(b):
        yield Change(what=f"number of {what}s", a=len(a), b=len(b))
        return
    if len(a) == 1:
        yield Change(what=what, a=a[0], b=b[0])
        return
    import numpy as np  # takes long to load, and only long encodings need it

    left, right = np.asarray(a, np.float64), np.asarray(b, np.float64)
    with np.errstate(all="ignore"):
        apart = np.abs(left - right) / np.maximum(np.maximum(np.abs(left), np.abs(right)), 1e-300)
    worst = int(np.argmax(np.where(left != right, np.nan_to_num(apart, nan=np.inf), -1.0)))
    yield Change(what=what, a=a[worst], b=b[worst], count=int(np.count_nonzero(left != right)))


def _encoding(encoding: QuantParams | None) -> str | None:
    if encoding is None:
        return None
    size = f" ×{len(encoding.scales)}" if len(encoding.scales) > 1 else ""
    return f"{encoding.dtype} {encoding.scheme}{size} {encoding.scales[0]:.6g} {encoding.zero_points[0]}"


def _argument_changes(a: Node, b: Node) -> Iterator[Change]:
    if not (a.kwargs or b.kwargs) and {*map(type, a.args), *map(type, b.args)} <= {Ref}:
        return
    left, right = (
        {where: arg for where, arg in literals(node) if not isinstance(arg, Ref)} for node in (a, b)
    )
    if a.op == "output" or b.op == "output":
        return
    for where in dict.fromkeys([*left, *right]):
        texts = [_text(side[where]) if where in side else None for side in (left, right)]
        if texts[0] != texts[1]:
            values = [_literal(side.get(where)) if where in side else None for side in (left, right)]
            yield Change(what=_argument_name(a, b, where), a=values[0], b=values[1])


def _argument_name(a: Node, b: Node, where: str) -> str:
    """Arguments of quantise ops by what they are."""
    if a.target.startswith(_QUANTISE) and b.target.startswith(_QUANTISE):
        scheme = "per_channel" if "per_channel" in a.target else "per_tensor"
        names = {f"args[{i}]": name for i, name in enumerate(_ENCODING_ARGS[scheme], start=1)}
        return names.get(where, where)
    return where


def _output_changes(a: tuple[TensorSpec | None, ...], b: tuple[TensorSpec | None, ...]) -> Iterator[Change]:
    if len(a) != len(b):
        yield Change(what="number of outputs", a=len(a), b=len(b))
    for i, (left, right) in enumerate(zip(a, b, strict=False)):
        which = f" of output {i}" if i else ""
        if left is None or right is None:
            if left is not right:
                yield Change(
                    what=f"output{which}", a=left.dtype if left else None, b=right.dtype if right else None
                )
            continue
        if left.shape != right.shape:
            yield Change(what=f"shape{which}", a=_scalar(left.shape), b=_scalar(right.shape))
        if left.dtype != right.dtype:
            yield Change(what=f"dtype{which}", a=left.dtype, b=right.dtype)


def _literal(arg: Arg) -> Scalar:
    return arg if arg is None or isinstance(arg, bool | int | float | str) else _text(arg)


def _text(arg: Arg) -> str:
    """As Python would write it; a reference is a place that a node fills."""
    if isinstance(arg, Seq):
        return f"[{', '.join(_text(item) for item in arg.items)}]"
    if isinstance(arg, Slice):
        return ":".join(_text(part) for part in (arg.start, arg.stop, arg.step))
    if isinstance(arg, Atom):
        return arg.text
    return "•" if isinstance(arg, Ref) else repr(arg)


def _scalar(value: object) -> Scalar:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(list(value)).replace("'", "") if isinstance(value, tuple) else str(value)

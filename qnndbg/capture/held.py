"""What a static QNN tensor holds: the bytes that its builder hands over, and their encoding in full.

The bindings give neither back, so the constructor of tensors is watched while preprocess builds the graph.
A payload is brought into the layout and dtype of the node's own constant: where it holds the same numbers it
has the same bytes, and is stored once. Owns that conversion; refuses to judge what it means for an output.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from executorch.backends.qualcomm.builders import node_visitor
from executorch.backends.qualcomm.utils import constants as qcom
from msgspec.structs import replace
from numpy.typing import NDArray

from qnndbg.model.graph import Graph, Node, QuantParams, Ref
from qnndbg.model.recording import FOLDED, Held
from qnndbg.recording.writer import Writer

Array = NDArray[np.generic]
ARGUMENTS = 10
"""Of ``TensorWrapper``: name, type, dtype, encoding, its parameters, rank, two of dimensions, data, copy."""


class Payload(NamedTuple):
    """What a builder gave a static tensor."""

    array: Array
    """Stored layout; four-bit integers in bytes."""
    scheme: str
    """QNN's name of the kind of encoding."""
    parameters: Mapping[str, Any]
    """Of the encoding."""


Payloads = dict[str, Payload]


class UnseenError(Exception):
    """What a tensor holds could not be told; the text says why."""


@contextmanager
def payloads_seen() -> Iterator[Payloads | None]:
    """Watch the static tensors that are made in the block, by name; None if this version has another layout.

    They are kept until the block's user lets go of them, which may take as much memory as the weights.
    """
    module = getattr(node_visitor, "PyQnnManager", None)
    original = getattr(module, "TensorWrapper", None)
    if original is None:
        yield None
        return
    seen: Payloads = {}

    def watched(*args: Any) -> Any:
        if len(args) == ARGUMENTS and args[1].name.endswith("_STATIC"):
            name, _, _, scheme, parameters, *_, data, _ = args
            seen[name] = Payload(data, _scheme(scheme), parameters)
        return original(*args)

    with patch.object(module, "TensorWrapper", watched):
        yield seen


def _scheme(encoding: Any) -> str:
    return str(encoding.name).removeprefix("QNN_QUANTIZATION_ENCODING_")


def held_from_payload(payload: Payload | None, node: Node, writer: Writer) -> Held:
    """What a static tensor holds, beside the node that it stands for.

    Args:
        payload: None if it was not seen.
        node: with a constant of its own.
        writer: has the constant, and gets the payload where that differs.
    """
    if payload is None or node.constant is None:
        return Held(problem="its builder was not seen to fill it")
    own = writer.stored(node.constant)
    try:
        array, axes = _placed(_whole(payload), own)
        encoding = _encoding(payload, array, axes, node.encoding)
    except UnseenError as unseen:
        return Held(problem=str(unseen))
    if array.dtype != own.dtype and np.array_equal(array.astype(own.dtype), array):
        array = array.astype(own.dtype)
    tensor = writer.tensor(array, node.constant.dtype if array.dtype == own.dtype else None)
    return Held(
        tensor=None if tensor == node.constant else tensor,
        encoding=None if _same(encoding, node.encoding) else encoding,
    )


def folded_constants(graph: Graph) -> dict[str, Held]:
    """The constants that a builder only makes its own from, by node: those of a batch norm.

    QNN's batch norm is a scale and an offset; what comes of folding the running statistics into these is no
    constant of the graph, and shows in the layer itself.
    """
    return {
        arg.node: Held(problem=FOLDED)
        for node in graph.nodes
        if "batch_norm" in node.target
        for arg in node.args[1:3]
        if isinstance(arg, Ref)
    }


def _whole(payload: Payload) -> Array:
    """The payload with integers of few bits spread over their bytes, sign and all."""
    bits = payload.parameters.get(qcom.QCOM_BITWIDTH)
    if bits is None or payload.array.dtype != np.int8:
        return payload.array
    sign = 1 << (bits - 1)
    whole: Array = ((payload.array & (2 * sign - 1)) ^ sign) - sign
    return whole


def _placed(array: Array, own: Array) -> tuple[Array, tuple[int, ...]]:
    """The payload in the layout of the node's constant, and which axis of that each stored axis is.

    Builders keep to themselves how they lay out a constant, so it is found by its numbers: the order of axes
    in which it fits, best of all.
    """
    if array.size != own.size:
        raise UnseenError(f"its builder makes {array.size} elements of the {own.size} of the constant")
    if array.ndim != own.ndim:
        if [n for n in array.shape if n > 1] != [n for n in own.shape if n > 1]:
            raise UnseenError(f"its builder makes the shape {array.shape} of {own.shape}")
        return array.reshape(own.shape), tuple(range(own.ndim))
    fitting = (
        order
        for order in itertools.permutations(range(own.ndim))
        if own.transpose(order).shape == array.shape
    )
    best, least = None, np.inf
    for order in fitting:
        off = _distance(own.transpose(order), array)
        if best is None or off < least:
            best, least = order, off
        if not off:
            break
    if best is None:
        raise UnseenError(f"its builder makes the shape {array.shape} of {own.shape}")
    return array.transpose(np.argsort(best)), best


def _distance(one: Array, other: Array) -> float:
    if np.array_equal(one, other, equal_nan=one.dtype.kind == "f"):
        return 0.0
    difference = one.astype(np.float64) - other.astype(np.float64)
    return float(np.linalg.norm(np.nan_to_num(difference).reshape(-1))) or np.finfo(np.float64).tiny


def _encoding(
    payload: Payload, array: Array, axes: tuple[int, ...], own: QuantParams | None
) -> QuantParams | None:
    """The encoding that QNN was given, over the axes of the node's constant."""
    given = payload.parameters
    if payload.scheme == "UNDEFINED":
        return None
    plain = QuantParams(
        scales=(),
        zero_points=(0,),
        qmin=int(given[qcom.QCOM_QUANT_MIN]),
        qmax=int(given[qcom.QCOM_QUANT_MAX]),
        dtype=str(array.dtype),
    )
    if payload.scheme in {"SCALE_OFFSET", "BW_SCALE_OFFSET"}:
        scale = float(np.float32(given[qcom.QCOM_SCALE]))
        return replace(plain, scales=(scale,), zero_points=(-int(given[qcom.QCOM_OFFSET]),))
    if payload.scheme in {"AXIS_SCALE_OFFSET", "BW_AXIS_SCALE_OFFSET"}:
        pairs = given[qcom.QCOM_SCALE_OFFSET]
        return replace(
            plain,
            scheme="per_channel",
            scales=tuple(pairs["scale"].tolist()),
            zero_points=tuple((-pairs["offset"]).tolist()),
            axis=axes[int(given[qcom.QCOM_AXIS])],
        )
    if payload.scheme == "BLOCKWISE_EXPANSION" and own is not None and own.block_size:
        scales = _block_scales(given, array.shape, own.block_size)
        return replace(plain, scheme="per_block", scales=scales, block_size=own.block_size)
    raise UnseenError(f"its encoding {payload.scheme} is not known")


def _block_scales(
    given: Mapping[str, Any], shape: tuple[int, ...], block: tuple[int, ...]
) -> tuple[float, ...]:
    """Scale of each block: that of its channel times a small integer of its own (blockwise expansion)."""
    pairs = given[qcom.QCOM_BLOCK_SCALE_OFFSET]
    factors = given[qcom.QCOM_BLOCK_SCALES].reshape(len(pairs), -1)
    scales = pairs["scale"].astype(np.float32)[:, None] * factors.astype(np.float32)
    counts = [n // b for n, b in zip(shape, block, strict=True)]
    if counts[0] != len(pairs):  # the channels of a transposed convolution are its second axis
        scales = np.swapaxes(scales.reshape(counts[1], counts[0], *counts[2:]), 0, 1)
    return tuple(float(scale) for scale in scales.reshape(-1))


def _same(one: QuantParams | None, other: QuantParams | None) -> bool:
    """Whether two encodings give integers the same meaning; QNN holds scales in float32."""
    if one is None or other is None:
        return one is other
    places = (one.scheme, one.axis, one.block_size) == (other.scheme, other.axis, other.block_size)
    return places and _numbers(one) == _numbers(other)


def _numbers(encoding: QuantParams) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Scales in float32, and zero points, one for all if they are equal."""
    zeros = encoding.zero_points
    return tuple(np.asarray(encoding.scales, np.float32).tolist()), zeros[:1] if len(
        set(zeros)
    ) == 1 else zeros

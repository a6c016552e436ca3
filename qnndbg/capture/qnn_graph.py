"""Reads the QNN graph that a partition became out of ExecuTorch's op wrappers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qnndbg.capture.snapshot import finite
from qnndbg.model.graph import Graph, QuantParams
from qnndbg.model.recording import QnnGraph, QnnOp, QnnTensor

_KINDS = {
    "APP_WRITE": "input",
    "APP_READ": "output",
    "APP_READWRITE": "output",
    "NATIVE": "native",
    "STATIC": "static",
    "NULL": "null",
    "OPTIONAL_APP_WRITE": "optional",
}
_LIMITS = {
    "UFIXED_POINT_8": (0, 255, "uint8"),
    "UFIXED_POINT_16": (0, 65535, "uint16"),
    "UFIXED_POINT_32": (0, 2**32 - 1, "uint32"),
    "SFIXED_POINT_8": (-128, 127, "int8"),
    "SFIXED_POINT_16": (-32768, 32767, "int16"),
    "SFIXED_POINT_32": (-(2**31), 2**31 - 1, "int32"),
}


def qnn_graph_from_wrappers(
    wrappers: Sequence[Any], graph: Graph, digest: str, method: str, partition: int
) -> QnnGraph:
    """What a partition became.

    Args:
        wrappers: ``PyQnnOpWrapper`` objects, in order.
        graph: the partition's last graph, whose nodes know their QNN tensor names where the build
            dumps intermediates.
        digest: the graph's.
        method: the method's name.
        partition: the partition's number.
    """
    makers = {name: (node.name, output) for node in graph.nodes for output, name in enumerate(node.tensors)}
    tensors: dict[str, QnnTensor] = {}
    ops = []
    for wrapper in wrappers:
        config = wrapper.GetOpWrapper().GetOpConfig()
        sides = [[t.v2 for t in config[side]] for side in ("inputTensors", "outputTensors")]
        for tensor in (*sides[0], *sides[1]):
            tensors.setdefault(tensor.name, _tensor(tensor, makers))
        ops.append(
            QnnOp(
                name=config["name"],
                type=config["typeName"],
                package=config["packageName"],
                inputs=tuple(t.name for t in sides[0]),
                outputs=tuple(t.name for t in sides[1]),
                params=dict(_param(p) for p in config["params"]),
            )
        )
    return QnnGraph(
        method=method, partition=partition, graph=digest, ops=tuple(ops), tensors=tuple(tensors.values())
    )


def _tensor(tensor: Any, makers: dict[str, tuple[str, int]]) -> QnnTensor:
    kind = _KINDS.get(tensor.type.name.removeprefix("QNN_TENSOR_TYPE_"), "other")
    dtype = tensor.dataType.name.removeprefix("QNN_DATATYPE_")
    node, output = makers.get(tensor.name, ("", 0))
    return QnnTensor(
        name=tensor.name,
        kind=kind,  # type: ignore[arg-type]
        dtype=dtype,
        shape=tuple(int(n) for n in tensor.dimensions),
        encoding=_encoding(tensor.quantizeParams, dtype),
        node=node,
        output=output,
    )


def _encoding(params: Any, dtype: str) -> QuantParams | None:
    """QNN's encoding in torch's sign; None for one that the bindings do not show."""
    low, high, name = _LIMITS.get(dtype, (0, 0, ""))
    kind = params.quantizationEncoding.name.removeprefix("QNN_QUANTIZATION_ENCODING_")
    if kind == "SCALE_OFFSET":
        pair = params.scaleOffsetEncoding
        return QuantParams(
            scales=(finite(pair.scale),), zero_points=(-pair.offset,), qmin=low, qmax=high, dtype=name
        )
    if kind == "AXIS_SCALE_OFFSET":
        axis = params.axisScaleOffsetEncoding
        pairs = list(axis.scaleOffset)
        return QuantParams(
            scheme="per_channel",
            scales=tuple(finite(p.scale) for p in pairs),
            zero_points=tuple(-p.offset for p in pairs),
            qmin=low,
            qmax=high,
            dtype=name,
            axis=int(axis.axis),
        )
    return None


def _param(param: Any) -> tuple[str, str]:
    # The bindings do not show what a tensor parameter holds; the node's arguments tell.
    return param.name, str(param.scalarParam.value()) if param.paramType.name.endswith("SCALAR") else "tensor"

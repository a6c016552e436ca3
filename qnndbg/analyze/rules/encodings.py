"""QD2xx: dtypes, encodings and layouts, wherever one part of the lowering hands a value to the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from qnndbg.analyze.descent import Staged
from qnndbg.analyze.phrases import short_op
from qnndbg.analyze.rules.context import Context, finding
from qnndbg.analyze.timeline import encodings_of_export
from qnndbg.model.graph import Node, QuantParams
from qnndbg.model.recording import QnnGraph
from qnndbg.model.result import Finding

NARROWED = {("int64", "int32")}
"""What the lowering does to every model, and only matters where a value does not fit."""


def find(context: Context) -> Iterator[Finding]:
    """Payloads, narrowing, I/O dtypes, encodings that change or do not fit, layouts, and requantisation."""
    for payload in context.evidence.payloads:
        yield finding(
            "QD201",
            "error",
            payload.tensor,
            f"output {payload.output} is not what {short_op(payload.op)} computed: {payload.detail}",
            method=payload.method,
            source=payload.source,
        )
    for guilty in context.evidence.changes:
        if guilty.change.narrowed:
            node = guilty.touched.first
            yield finding(
                "QD202",
                "error",
                guilty.change.name,
                "an input holds int64 values beyond int32, which the lowering wraps",
                evidence=f"narrowed by the pass {guilty.change.name}",
                origin=node.origin if node else None,
                method=guilty.change.method,
            )
    for given in context.recording.manifest.inputs:
        if given.strides:
            yield finding(
                "QD206",
                "error" if context.is_wrong("input", given.method) or _refused(context) else "note",
                given.name,
                f"{given.name} of sample {given.sample}: {given.note.partition('; ')[2]}",
                method=given.method,
            )
    yield from _io(context)
    for graph in context.recording.qnn:
        yield from _of_partition(context, graph)


def _refused(context: Context) -> bool:
    return any(r.name == "htp-given" and r.against_eager is None for r in context.evidence.ladder)


def _io(context: Context) -> Iterator[Finding]:
    for method in context.recording.manifest.methods:
        run = context.recording.run("eager", method.name)
        for number, (port, value) in enumerate(zip(method.outputs, run.results if run else (), strict=False)):
            if port is None or value is None or port.dtype == value.dtype:
                continue
            yield finding(
                "QD203",
                "note" if (value.dtype, port.dtype) in NARROWED else "warning",
                f"output {number}",
                f"output {number} is {port.dtype} in the program and {value.dtype} in the model",
                method=method.name,
            )


def _of_partition(context: Context, graph: QnnGraph) -> Iterator[Finding]:
    last = context.last_graphs[graph.method, graph.partition]
    here = Staged("preprocess", last, context.recording.first_graph("export", graph.method))
    nodes, exported = here.named, encodings_of_export(context.recording, graph.method)
    for tensor in graph.tensors:
        node = nodes.get(tensor.node)
        if node is None or node.encoding is None or tensor.kind == "static" or node.multiple:
            continue
        if tensor.encoding is not None and not same_grid(tensor.encoding, node.encoding):
            yield finding(
                "QD204",
                "warning",
                tensor.name,
                f"QNN's encoding of {short_op(node.target)} is not that of the graph",
                evidence=f"{shown(tensor.encoding)} against {shown(node.encoding)}",
                origin=node.origin,
                method=graph.method,
            )
        before = None if here.is_part(node) else exported.get(here.ancestor(node))
        if before is not None and not node.origin.created_by and not same_grid(before, node.encoding):
            yield finding(
                "QD205",
                "note",
                tensor.name,
                f"the encoding of {short_op(node.target)} is not that of the quantised model",
                evidence=f"{shown(node.encoding)} against {shown(before)}",
                origin=node.origin,
                method=graph.method,
            )
    yield from _requantised(graph.method, nodes)
    yield from _unfitting(graph.method, nodes)


def _requantised(method: str, nodes: Mapping[str, Node]) -> Iterator[Finding]:
    for node in nodes.values():
        for user, encoding in node.requantize.items():
            if node.encoding is not None and not same_grid(node.encoding, encoding):
                yield finding(
                    "QD207",
                    "note",
                    node.name,
                    f"{short_op(node.target) or node.name} is read by {user} in another encoding",
                    evidence=f"{shown(node.encoding)} to {shown(encoding)}",
                    origin=node.origin,
                    method=method,
                )


def _unfitting(method: str, nodes: Mapping[str, Node]) -> Iterator[Finding]:
    for node in nodes.values():
        encoding, shape = node.encoding, node.constant.shape if node.constant is not None else ()
        if encoding is None or encoding.scheme != "per_channel" or not shape:
            continue
        channels = shape[encoding.axis or 0]
        if len(encoding.scales) != channels:
            yield finding(
                "QD208",
                "error",
                node.name,
                f"the encoding of {node.name} has {len(encoding.scales)} scales for {channels} channels",
                origin=node.origin,
                method=method,
            )


def same_grid(one: QuantParams, other: QuantParams) -> bool:
    """Whether two encodings have one grid; the signed and the unsigned form of it are the same."""
    if len(one.scales) != len(other.scales):
        return False
    if any(abs(a - b) > 1e-6 * abs(b) for a, b in zip(one.scales, other.scales, strict=True)):
        return False
    zeros = zip(one.zero_points, other.zero_points, strict=False)
    return all(a - one.qmin == b - other.qmin or a == b for a, b in zeros)


def shown(encoding: QuantParams) -> str:
    """An encoding in few words."""
    more = f" and {len(encoding.scales) - 1} more" if len(encoding.scales) > 1 else ""
    return f"scale {encoding.scales[0]:.4g}{more}, zero point {encoding.zero_points[0]}, {encoding.dtype}"

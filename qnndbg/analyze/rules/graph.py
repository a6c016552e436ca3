"""QD3xx: what was delegated, and what reached the partitions in a form that they cannot use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from qnndbg.analyze.phrases import short_op
from qnndbg.analyze.rules.context import Context, finding
from qnndbg.model.graph import Origin
from qnndbg.model.result import Finding


def find(context: Context) -> Iterator[Finding]:
    """Fallbacks, partitions, constants without a value, and states without a start value."""
    for method in context.recording.manifest.methods:
        origins = _origins(context, method.name)
        for (op, reason), count in Counter((f.op, f.reason) for f in method.fallbacks).items():
            node = next(f.node for f in method.fallbacks if (f.op, f.reason) == (op, reason))
            yield finding(
                "QD302",
                "note",
                node,
                f"{short_op(op)} stays on the CPU{f', {count} times' if count > 1 else ''}",
                evidence=reason,
                origin=origins.get(node),
                method=method.name,
            )
        if not method.partitions:
            yield finding(
                "QD303",
                "warning",
                method.name,
                f"nothing of {method.name} is delegated to the HTP",
                method=method.name,
            )
        if method.partitions > 1:
            yield finding(
                "QD304",
                "note",
                method.name,
                f"{method.name} has {method.partitions} partitions",
                method=method.name,
            )
    yield from _values(context)


def _origins(context: Context, method: str) -> dict[str, Origin]:
    outer = context.recording.last_graph("partition", method)
    return {node.name: node.origin for node in outer.nodes} if outer else {}


def _values(context: Context) -> Iterator[Finding]:
    for (method, _), graph in context.last_graphs.items():
        for node in graph.nodes:
            if node.op == "get_attr" and node.constant is None:
                yield finding(
                    "QD301",
                    "warning",
                    node.name,
                    f"the constant {node.target or node.name} reaches the partition without its value",
                    origin=node.origin,
                    method=method,
                )
            if node.role == "state" and node.constant is None:
                yield finding(
                    "QD305",
                    "note",
                    node.name,
                    f"the state {node.name} has no start value in the program",
                    origin=node.origin,
                    method=method,
                )

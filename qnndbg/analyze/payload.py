"""Whether the program hands out what the HTP computed: outputs against the QNN tensors that they come from.

The dump itself can be wrong while the output is right, so the reference decides which of the two is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qnndbg.analyze.delegates import delegate_outputs
from qnndbg.analyze.metrics import measure
from qnndbg.analyze.normalize import Array, numbers
from qnndbg.analyze.phrases import signed
from qnndbg.analyze.verdict import BACKEND_DB, Payload, quality
from qnndbg.model.graph import Graph, Node, Ref, TensorRef
from qnndbg.recording.store import Recording

RIGHT_DB = 20.0
"""A tensor that the HTP computed right, but for what its format costs."""
SAME_DB = 60.0
"""An output and the tensor that it comes from are the same number, cast at most."""


def payloads_of(recording: Recording) -> tuple[Payload, ...]:
    """The outputs whose payload is not what was computed, for the example inputs of each method."""
    return tuple(found for method in recording.methods for found in _of_method(recording, method))


def _of_method(recording: Recording, method: str) -> list[Payload]:
    runs = [recording.run(name, method) for name in ("htp-tapped", "local", "reference")]
    outer = recording.last_graph("partition", method)
    if outer is None or any(run is None for run in runs):
        return []
    columns = [run.results for run in runs if run is not None]
    origins = delegate_outputs(outer)
    holds = {number: _held(recording, given, columns[1], number) for number, given in enumerate(columns[0])}
    found = []
    for output, (given, computed, expected) in enumerate(zip(*columns, strict=False)):
        detail = _difference(recording, given, computed, expected)
        if detail:
            other = holds[output]
            if other is not None:
                swapped = holds.get(other) == output
                detail = (
                    f"outputs {min(output, other)} and {max(output, other)} are swapped"
                    if swapped
                    else f"it holds the bytes of output {other}"
                )
            node = _maker(recording, origins[output] if output < len(origins) else None, method)
            found.append(
                Payload(
                    method=method,
                    output=output,
                    tensor=f"output {output}",
                    op=node.target if node else "",
                    source=node.origin.source if node else "",
                    detail=detail,
                    wide=other if other is not None and _is_wide(columns[0][other]) else None,
                )
            )
    return found


def _difference(
    recording: Recording, given: TensorRef | None, computed: TensorRef | None, expected: TensorRef | None
) -> str:
    """What is wrong with a payload; empty if nothing is."""
    values = [_numbers(recording, ref) for ref in (given, computed, expected)]
    if any(value is None for value in values):
        return ""
    output, tensor, reference = (value for value in values if value is not None)
    if output.shape != reference.shape or tensor.shape != reference.shape:
        return ""
    if quality(measure(tensor, output)) >= SAME_DB:
        return ""
    if quality(measure(reference, output)) >= quality(measure(reference, tensor)):
        return ""  # it is the dump that is wrong
    if output.dtype.kind == "f" and quality(measure(reference, output)) >= BACKEND_DB:
        return ""  # the HTP fuses the rounding away that the tensor shows
    if output.dtype == np.int64 and np.array_equal(_int32_of(output), tensor.reshape(-1)):
        return "it is declared int64 and holds int32, two of them in each number"
    if quality(measure(reference, tensor)) < RIGHT_DB:
        return ""  # neither is right, so that what was computed is to be explained first
    return (
        f"the tensor that was computed has {_db(tensor, reference)} and the output {_db(output, reference)}"
    )


def _is_wide(ref: TensorRef | None) -> bool:
    return ref is not None and ref.dtype == "int64"


def _held(
    recording: Recording, given: TensorRef | None, computed: Sequence[TensorRef | None], output: int
) -> int | None:
    """Which other output's bytes an output holds; None if no one's."""
    held = _numbers(recording, given)
    for other, ref in enumerate(computed):
        tensor = _numbers(recording, ref) if other != output else None
        if held is not None and tensor is not None and tensor.size and tensor.dtype.kind in "if":
            tensor = tensor.astype(np.int32) if tensor.dtype == np.int64 else tensor
            data = held.tobytes()[: tensor.nbytes]
            if len(data) == tensor.nbytes and _same(tensor, np.frombuffer(data, tensor.dtype)):
                return other
    return None


def _same(tensor: Array, held: Array) -> bool:
    """Whether bytes are these numbers, but for float noise."""
    return quality(measure(tensor, held.reshape(tensor.shape))) >= SAME_DB


def _int32_of(output: Array) -> Array:
    flat = np.ascontiguousarray(output).view(np.int32).reshape(-1)
    return flat[: output.size]


def _db(target: Array, reference: Array) -> str:
    value = quality(measure(reference, target))
    return f"{signed(value, 0)} dB" if np.isfinite(value) else "no number in common"


def _numbers(recording: Recording, ref: TensorRef | None) -> Array | None:
    return None if ref is None else numbers(recording.tensor(ref), ref.dtype)


def _maker(recording: Recording, origin: tuple[int, int] | None, method: str) -> Node | None:
    """The op inside a delegate that computes an output of the method."""
    if origin is None:
        return None
    partition, number = origin
    graphs = [g for g in recording.qnn if (g.method, g.partition) == (method, partition)]
    return _computed_by(recording.graph(graphs[0].graph), number) if graphs else None


def _computed_by(graph: Graph, number: int) -> Node | None:
    """The op behind an output of a partition, seen through what only moves it."""
    nodes = {node.name: node for node in graph.nodes}
    value = graph.outputs[number].value if number < len(graph.outputs) else None
    node = nodes.get(value.node) if isinstance(value, Ref) else None
    while node is not None and _passes_on(node) and isinstance(node.args[0], Ref):
        node = nodes[node.args[0].node]
    return node


def _passes_on(node: Node) -> bool:
    return (
        node.target == "operator.getitem"
        or node.layout_permute
        or "quantize_" in node.target
        or "_to_copy" in node.target
    )

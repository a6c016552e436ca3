"""Every QNN tensor of a net whose tensors were labelled by hand is traced to what it comes from.

The labels follow from the net's source and from what the passes do: an op of the user's model has its
exported nodes, its module and its line; what a pass invented has the pass.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from qnndbg.model.graph import Origin
from qnndbg.recording.store import Recording, open_recording
from tests.emulator.conftest import SCRIPTS

SCRIPT = SCRIPTS / "labelled.py"
LIMIT = 0.99
DECOMPOSES = "DecomposeScaledDotProductAttention"

# QNN type | exported nodes | module | the comment at the line | the pass that invented it.
# A word in parentheses may be said or left out.
HALF = """\
Transpose           |                              |                 |         | LayoutTransform
Reshape             |                              |                 |         | ExpandBroadcastTensorShape
Reshape             |                              |                 |         | ExpandBroadcastTensorShape
Conv2d              | conv2d                       | stem            | conv    |
Prelu               | prelu                        | act             | conv    |
ElementWiseNeuron   | hardsigmoid                  |                 | gates   |
Sigmoid             | silu                         |                 | gates   |
ElementWiseMultiply | silu                         |                 | gates   |
ElementWiseAdd      | add                          |                 | gates   |
Transpose           |                              |                 |         | LayoutTransform
Reshape             | flatten                      |                 | tokens  |
Transpose           | transpose                    |                 | tokens  |
Reshape             |                              |                 |         | FixedLinearKeepDim
Reshape             |                              |                 |         | FixedLinearKeepDim
FullyConnected      | linear                       | attention.query | query   |
Reshape             |                              |                 |         | FixedLinearKeepDim
FullyConnected      | linear_1                     | attention.value | value   |
Reshape             |                              |                 |         | FixedLinearKeepDim
ElementWiseMultiply | scaled_dot_product_attention | attention       | sdpa    | (Decompose)
Transpose           | scaled_dot_product_attention | attention       | sdpa    | (Decompose)
ElementWiseMultiply | scaled_dot_product_attention | attention       | sdpa    | (Decompose)
Reshape             | scaled_dot_product_attention | attention       | sdpa    | (Decompose)
Reshape             | scaled_dot_product_attention | attention       | sdpa    | (Decompose)
MatMul              | scaled_dot_product_attention | attention       | sdpa    | (Decompose)
Reshape             | scaled_dot_product_attention | attention       | sdpa    | (Decompose)
Softmax             | scaled_dot_product_attention | attention       | sdpa    | (Decompose)
Reshape             | scaled_dot_product_attention | attention       | sdpa    | (Decompose)
Reshape             | scaled_dot_product_attention | attention       | sdpa    | (Decompose)
MatMul              | scaled_dot_product_attention | attention       | sdpa    | (Decompose)
Reshape             | scaled_dot_product_attention | attention       | sdpa    | (Decompose)
LayerNorm           | layer_norm                   | norm            | norm    |
Reshape             |                              |                 |         | FixedLinearKeepDim
FullyConnected      | linear_2                     | fine.project    | fine    |
Reshape             |                              |                 |         | FixedLinearKeepDim
Tanh                | tanh                         | fine            | fine    |
Reshape             |                              |                 |         | FixedLinearKeepDim
FullyConnected      | linear_3                     | head            | head    |
Reshape             |                              |                 |         | FixedLinearKeepDim"""
# The quantiser's own pipeline decomposes attention and silu before the model that is lowered is exported.
INTEGERS = """\
Quantize            |                |                 |         | InsertIOQDQ
Transpose           |                |                 |         | LayoutTransform
Conv2d              | conv2d         | stem            | conv    |
Prelu               | prelu          | act             | conv    |
Sigmoid             | sigmoid        |                 | gates   |
ElementWiseMultiply | mul            |                 | gates   |
ElementWiseNeuron   | hardsigmoid    |                 | gates   |
ElementWiseAdd      | add            |                 | gates   |
Transpose           |                |                 |         | LayoutTransform
Reshape             | flatten        |                 | tokens  |
Transpose           | transpose      |                 | tokens  |
Reshape             |                |                 |         | FixedLinearKeepDim
Reshape             |                |                 |         | FixedLinearKeepDim
FullyConnected      | linear         | attention.query | query   |
Reshape             |                |                 |         | FixedLinearKeepDim
FullyConnected      | linear_1       | attention.value | value   |
Reshape             |                |                 |         | FixedLinearKeepDim
Reshape             |                |                 |         | ExpandBroadcastTensorShape
ElementWiseMultiply | mul_1          | attention       | (sdpa)  | (Decompose)
Transpose           | transpose_1    | attention       | (sdpa)  | (Decompose)
Reshape             |                |                 |         | ExpandBroadcastTensorShape
ElementWiseMultiply | mul_2          | attention       | (sdpa)  | (Decompose)
Reshape             | view           | attention       | (sdpa)  | (Decompose)
Reshape             | view_1         | attention       | (sdpa)  | (Decompose)
MatMul              | bmm            | attention       | (sdpa)  | (Decompose)
Reshape             | _unsafe_view   | attention       | (sdpa)  | (Decompose)
Softmax             | _safe_softmax  | attention       | (sdpa)  | (Decompose)
Reshape             | view_2         | attention       | (sdpa)  | (Decompose)
Reshape             | view_3         | attention       | (sdpa)  | (Decompose)
MatMul              | bmm_1          | attention       | (sdpa)  | (Decompose)
Reshape             | _unsafe_view_1 | attention       | (sdpa)  | (Decompose)
LayerNorm           | layer_norm     | norm            | norm    |
Reshape             |                |                 |         | FixedLinearKeepDim
Convert             |                |                 |         | InsertRequantize
FullyConnected      | linear_2       | fine.project    | fine    |
Reshape             |                |                 |         | FixedLinearKeepDim
Tanh                | tanh           | fine            | fine    |
Reshape             |                |                 |         | FixedLinearKeepDim
Convert             |                |                 |         | InsertRequantize
FullyConnected      | linear_3       | head            | head    |
Reshape             |                |                 |         | FixedLinearKeepDim
Dequantize          |                |                 |         | InsertIOQDQ"""

Label = tuple[str, str]
"""What is said, and of what kind: ``from``, ``in``, ``at`` or ``by``."""


class Row(NamedTuple):
    """The labels of one tensor."""

    op: str
    due: set[Label]
    allowed: set[Label]


def rows(table: str) -> list[Row]:
    return [row([cell.strip() for cell in line.split("|")]) for line in table.splitlines()]


def row(cells: list[str]) -> Row:
    due: set[Label] = set()
    allowed: set[Label] = set()
    for kind, cell in zip(("from", "in", "at", "by"), cells[1:], strict=True):
        word = DECOMPOSES if cell == "(Decompose)" else cell.strip("()")
        if word:
            (allowed if cell.startswith("(") else due).add((kind, word))
    return Row(cells[0], due, allowed)


def comment(file: str, line: str) -> str:
    """What stands behind the line; a line of another file stands for itself."""
    if Path(file).name != SCRIPT.name:
        return f"{file}:{line}"
    return SCRIPT.read_text(encoding="utf-8").splitlines()[int(line) - 1].rpartition("# ")[2]


def labels(origin: Origin) -> Iterator[Label]:
    """All that is said of a tensor."""
    yield from (("from", name) for name in origin.ancestors)
    if origin.module_path:
        yield "in", origin.module_path
    if origin.source:
        yield "at", comment(*origin.source.rsplit(":", 1))
    if origin.created_by:
        yield "by", origin.created_by


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> list[Recording]:
    """In integers, and in half floats."""
    folder = tmp_path_factory.mktemp("labelled")
    command = [sys.executable, "-m", "qnndbg", "record", "-q", str(SCRIPT)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [open_recording(folder / name) for name in ("labelled.qnndbg", "labelled-2.qnndbg")]


def computed(recording: Recording) -> list[tuple[str, str, Origin]]:
    """QNN type, tensor and origin of all that an op computes, in order."""
    (graph,) = recording.qnn
    nodes = {node.name: node for node in recording.graph(graph.graph).nodes}
    makers = {tensor.name: nodes[tensor.node] for tensor in graph.tensors if tensor.node}
    return [(op.type, name, makers[name].origin) for op in graph.ops for name in op.outputs]


@pytest.mark.parametrize(("number", "table"), [(0, INTEGERS), (1, HALF)], ids=["integers", "half"])
def test_tensors_are_traced_to_what_they_come_from(
    number: int, table: str, recordings: list[Recording]
) -> None:
    found, truth = computed(recordings[number]), rows(table)
    assert [op for op, _, _ in found] == [row.op for row in truth]
    due, said, right = 0, 0, 0
    wrong = []
    for (_, tensor, origin), row in zip(found, truth, strict=True):
        words = set(labels(origin))
        if not any(kind == "from" for kind, _ in row.due):
            # What was invented may have what a neighbour has.
            words = {(kind, word) for kind, word in words if kind == "by"}
        due, said, right = due + len(row.due), said + len(words - row.allowed), right + len(words & row.due)
        if words - row.allowed != row.due:
            wrong.append(f"{tensor}: {sorted(words)}, not {sorted(row.due)}")
    assert min(right / said, right / due) >= LIMIT, (
        f"precision {right / said:.3f}, recall {right / due:.3f}\n" + "\n".join(wrong)
    )


def test_a_delegate_is_made_by_the_partitioner(recordings: list[Recording]) -> None:
    for recording in recordings:
        (delegated,) = {event.after for event in recording.passes if event.name == "to_backend"}
        last = [event.after for event in recording.passes if event.stage == "executorch"][-1]
        for graph in map(recording.graph, (delegated, last)):
            makers = {node.target: node.origin.created_by for node in graph.nodes if node.op != "output"}
            inputs = [node.target for node in graph.nodes if node.op == "placeholder"]
            assert makers == {
                **dict.fromkeys(inputs, ""),
                "lowered_module_0": "to_backend",
                "higher_order.executorch_call_delegate": "to_backend",
                "operator.getitem": "to_backend",
            }


def test_sources_are_files_of_the_users(recordings: list[Recording]) -> None:
    files = {origin.source.rpartition(":")[0] for r in recordings for *_, origin in computed(r)} - {""}
    assert {Path(file).name for file in files} == {SCRIPT.name}


def test_what_is_told_of_layers_is_what_is_told_of_tensors(recordings: list[Recording]) -> None:
    for recording in recordings:
        comparison = recording.comparison()
        assert comparison is not None
        layers = {layer.tensor: layer for layer in comparison.layers}
        for _, tensor, origin in computed(recording):
            layer = layers[tensor]
            assert (layer.module, layer.source, layer.created_by) == (
                *(origin.module_path, origin.source, origin.created_by),
            )

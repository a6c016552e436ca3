"""The node that a lowering was at, found in the frames of what it raised."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from qnndbg.capture.failing_node import failing_node
from qnndbg.model.recording import FailingNode


class Net(nn.Module):
    def __init__(self, ops: int = 2) -> None:
        super().__init__()
        self.fc, self.ops = nn.Linear(4, 4), ops

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc(x)
        for _ in range(self.ops - 1):
            x = x.relu()  # the line of the relu
        return x


LINES = Path(__file__).read_text(encoding="utf-8").splitlines()
LINE = next(i for i, line in enumerate(LINES, 1) if "# the line of the relu" in line)


def exported(ops: int = 2) -> torch.export.ExportedProgram:
    return torch.export.export(Net(ops).eval(), (torch.zeros(1, 4),), strict=True)


def named(program: torch.export.ExportedProgram, name: str) -> torch.fx.Node:
    nodes: list[torch.fx.Node] = list(program.graph.nodes)
    return next(node for node in nodes if node.name == name)


def raised(function: Callable[..., Any], *args: Any) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011 whatever it is, frames are what counts
        function(*args)
    return caught.value


def visit(node: torch.fx.Node) -> None:
    raise KeyError("val")


def convert(graph_node: torch.fx.Node) -> None:
    helper(3)


def helper(number: int) -> None:
    raise ValueError(number)


def walk(program: torch.export.ExportedProgram, *names: str) -> None:
    for name in names:
        node = named(program, name)
        if name == names[-1]:
            visit(node)


def chained(program: torch.export.ExportedProgram, *, explicit: bool) -> None:
    try:
        visit(named(program, "relu"))
    except KeyError as error:
        if explicit:
            raise RuntimeError("the pass failed") from error
        raise RuntimeError("the pass failed")  # noqa: B904 a chain that nobody asked for


def compile_partition(edge_program: torch.export.ExportedProgram) -> None:
    raise AssertionError("refused")


def test_node_with_its_module_and_source() -> None:
    found = failing_node(raised(walk, exported(), "linear", "relu"))
    assert found == FailingNode(
        name="relu", op="aten.relu.default", source=f"test_failing_node.py:{LINE}", module=""
    )
    linear = failing_node(raised(walk, exported(), "linear"))
    assert linear is not None
    assert (linear.name, linear.op, linear.module) == ("linear", "aten.linear.default", "fc")


def test_innermost_frame_that_has_a_node_knows_best() -> None:
    program = exported()

    def outer(node: torch.fx.Node) -> None:
        convert(named(program, "relu"))

    found = failing_node(raised(outer, named(program, "linear")))
    assert found is not None
    assert found.name == "relu"


@pytest.mark.parametrize("explicit", [True, False])
def test_cause_of_an_exception_is_looked_through(explicit: bool) -> None:
    program = exported()
    found = failing_node(raised(lambda: chained(program, explicit=explicit)))
    assert found is not None
    assert found.name == "relu"


def test_placeholders_are_no_ops() -> None:
    program = exported()
    assert failing_node(raised(visit, named(program, "x"))) is None


def test_partition_of_few_ops_is_named_by_them() -> None:
    found = failing_node(raised(compile_partition, exported()))
    assert found is not None
    assert (found.name, found.op) == ("linear, relu", "aten.linear.default, aten.relu.default")


def test_partition_of_many_is_named_by_its_first() -> None:
    found = failing_node(raised(compile_partition, exported(6)))
    assert found is not None
    assert found.name == "linear, relu, relu_1"


def test_exception_without_a_node_in_its_frames() -> None:
    assert failing_node(raised(helper, 1)) is None
    assert failing_node(KeyError("never raised")) is None


def test_exceptions_that_cause_each_other_end() -> None:
    one, other = KeyError("a"), KeyError("b")
    one.__cause__, other.__cause__ = other, one
    assert failing_node(one) is None

"""One method of a recording as a program on the CPU: its graph, with each delegate in its last form.

A value is named by its place: the partition (None outside of the delegates), the node and the output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from qnndbg.execute.reference import Computed, Meaning, Walk, evaluate
from qnndbg.model.graph import Graph, TensorRef


class Place(NamedTuple):
    """Where a value stands in a program."""

    partition: int | None
    node: str
    output: int


Substitute = Callable[[Place, Computed], torch.Tensor | None]
"""Gives the value with which the program goes on instead of the one that it computed at a place."""


@dataclass(slots=True)
class Trace:
    """One execution of a program."""

    results: list[Any] = field(default_factory=list)
    """The outputs of the method."""
    values: dict[int, Mapping[tuple[str, int], torch.Tensor]] = field(default_factory=dict)
    """Partition to what each of its nodes computed."""
    problems: dict[str, str] = field(default_factory=dict)
    """Node to the reason why it was not evaluated."""


@dataclass(frozen=True, slots=True)
class Program:
    """A method with the inputs of one sample."""

    graph: Graph
    inputs: Sequence[torch.Tensor]
    load: Callable[[TensorRef], torch.Tensor]
    partitions: Mapping[int, Graph] = field(default_factory=dict)
    """The last graph of each partition, by number."""
    meaning: Meaning = "quantised"
    outside: Meaning | None = None
    """Of what is outside of the delegates, if it is another."""

    def run(self, substitute: Substitute | None = None) -> Trace:
        """Execute it, inputs untouched.

        Args:
            substitute: sees every value, inputs and constants among them, in the order of execution.
        """
        trace = Trace()

        def call_partition(number: int, args: Sequence[Any]) -> Sequence[Any]:
            walk = self._walk(self.partitions[number], args, number, substitute)
            trace.values[number] = walk.values
            trace.problems.update(walk.problems)
            return walk.results

        copies = [value.clone() for value in self.inputs]
        walk = self._walk(self.graph, copies, None, substitute, call_partition)
        trace.results = walk.results
        trace.problems.update(walk.problems)
        return trace

    def _walk(
        self,
        graph: Graph,
        inputs: Sequence[Any],
        partition: int | None,
        substitute: Substitute | None,
        call_partition: Callable[[int, Sequence[Any]], Sequence[Any]] | None = None,
    ) -> Walk:
        replace = None
        if substitute is not None:

            def replace(computed: Computed) -> torch.Tensor | None:
                return substitute(Place(partition, computed.node.name, computed.output), computed)

        return evaluate(
            graph,
            inputs,
            self.load,
            meaning=self.outside or self.meaning if partition is None else self.meaning,
            replace=replace,
            call_partition=call_partition,
        )

"""Tells whether a graph is still what it was at the last snapshot, without making a new one.

Most passes change nothing. They may change nodes in place, so all that a snapshot is made of is looked at
each time, and only the making is saved: what never changes is told by its identity, what may by its contents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import is_
from typing import NamedTuple

import torch
from executorch.backends.qualcomm.utils.constants import (
    QCOM_AXIS_ORDER,
    QCOM_INSERTED_PERMUTE,
    QCOM_QUANT_ATTRS,
    QCOM_QUANTIZED_IO,
    QCOM_REQUANTIZE,
    QCOM_TENSOR_NAME,
)

from qnndbg.capture.provenance import Lineage
from qnndbg.capture.tensors import state_of_tensor
from qnndbg.model.graph import Graph, TensorSpec

Column = list[object]
"""One object per node. All that is compared by identity is held, so that no other gets its address."""
Specs = tuple[TensorSpec | None, ...]

_FIXED = frozenset({type(None), bool, int, float, str, torch.dtype})
"""Types of which no value can change."""


_META = (
    QCOM_QUANT_ATTRS,
    QCOM_REQUANTIZE,
    QCOM_AXIS_ORDER,
    QCOM_INSERTED_PERMUTE,
    QCOM_QUANTIZED_IO,
    QCOM_TENSOR_NAME,
    "debug_handle",
)
"""Entries of a node's meta that a snapshot takes as they are."""


class Survey(NamedTuple):
    """All that a snapshot is made of."""

    fixed: list[Column]
    """Objects that never change."""
    loose: list[Column]
    """Objects that may: containers."""
    plain: Sequence[object]
    """Data that are compared by value."""


def survey(nodes: Sequence[torch.fx.Node], lineage: Lineage, plain: Sequence[object]) -> Survey:
    """Look at all that a snapshot is made of.

    Args:
        nodes: of the graph, in order.
        lineage: has followed that graph.
        plain: what is at hand already.
    """
    metas = [node.meta for node in nodes]
    # torch.fx replaces arguments as a whole, and never changes what is in them.
    return Survey(
        fixed=[
            [node.name for node in nodes],
            [node.op for node in nodes],
            [node.target for node in nodes],
            [node.args for node in nodes],
            [node.kwargs for node in nodes],
            [isinstance(meta.get("val"), (list, tuple)) for meta in metas],
            *lineage.evidence(metas),
        ],
        loose=[[meta.get(key) for meta in metas] for key in _META],
        plain=plain,
    )


class Seen:
    """The last snapshot of one method's graph, or of one partition's."""

    def __init__(self) -> None:
        self._last: Survey | None = None
        self._contents: tuple[Column, Column] = [], []
        self._graph = Graph(nodes=(), outputs=())
        self._specs: dict[tuple[torch.Size, torch.dtype], TensorSpec] = {}

    def graph(self, survey: Survey, make: Callable[[], Graph]) -> Graph:
        """The last snapshot again, if it would be the same; else a new one."""
        contents = _within(*(column for column in survey.loose if not set(map(type, column)) <= _FIXED))
        if not self._is(survey, contents):
            self._graph = make()
            self._last, self._contents = survey, contents
        return self._graph

    def _is(self, survey: Survey, contents: tuple[Column, Column]) -> bool:
        (held, states), last = self._contents, self._last
        return (
            last is not None
            and all(map(_same, last.fixed, survey.fixed))
            and all(map(_same, last.loose, survey.loose))
            and last.plain == survey.plain
            and _same(held, contents[0])
            and states == contents[1]
        )

    def specs(self, value: object) -> Specs:
        """Shapes and dtypes of what a node returns."""
        if isinstance(value, (list, tuple)):
            return tuple(map(self._spec, value))
        return () if value is None else (self._spec(value),)

    def _spec(self, value: object) -> TensorSpec | None:
        if not isinstance(value, torch.Tensor):
            return None
        key = value.shape, value.dtype
        try:
            return self._specs[key]
        except KeyError:
            return self._specs.setdefault(key, _spec_from_tensor(value))
        except TypeError:  # a dimension that is not fixed cannot be hashed
            return _spec_from_tensor(value)


def _spec_from_tensor(value: torch.Tensor) -> TensorSpec:
    """Shape and dtype; a dimension that is not fixed is its expression."""
    shape = tuple(d if isinstance(d, int) else str(d) for d in value.shape)
    return TensorSpec(shape, str(value.dtype).removeprefix("torch."))


def _same(one: Column, other: Column) -> bool:
    return len(one) == len(other) and all(map(is_, one, other))


def _within(*columns: Iterable[object]) -> tuple[Column, Column]:
    """All that is in containers, to the bottom; and their lengths, and the states of tensors."""
    held: Column = []
    states: Column = []
    for value in chain(*columns):
        if type(value) in _FIXED:
            continue
        if isinstance(value, torch.Tensor):
            states.append(state_of_tensor(value))
        elif isinstance(value, (dict, list, tuple)):
            items = [*value, *value.values()] if isinstance(value, dict) else value
            deeper, more = _within(items)
            held += [*items, *deeper]
            states += [len(value), *more]
    return held, states

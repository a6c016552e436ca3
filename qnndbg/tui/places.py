"""Where one can go: the places that a line leads to when it is opened. Owns no lookup and no screen."""

from __future__ import annotations

from dataclasses import dataclass

from qnndbg.model.graph import TensorRef
from qnndbg.model.recording import RunnerName


@dataclass(frozen=True, slots=True)
class PageAt:
    """One of the main pages, by name, such as ``layers``."""

    name: str
    query: str = ""
    """A filter to show it with."""


@dataclass(frozen=True, slots=True)
class LayerAt:
    """A QNN tensor with its errors."""

    method: str
    partition: int
    tensor: str


@dataclass(frozen=True, slots=True)
class PassAt:
    """A pass event, by its position in the recording."""

    position: int


@dataclass(frozen=True, slots=True)
class FindingAt:
    """A finding, by its position in the comparison."""

    position: int


@dataclass(frozen=True, slots=True)
class GraphAt:
    """One graph of a recording."""

    stage: str
    """A stage of the lowering, or ``qnn``."""
    method: str = "forward"
    partition: int | None = None
    digest: str = ""
    """A certain snapshot; the last one of the stage if empty."""


@dataclass(frozen=True, slots=True)
class NodeAt:
    """A node of a graph; of the first that has it if no graph is given."""

    name: str
    graph: GraphAt | None = None


@dataclass(frozen=True, slots=True)
class TensorAt:
    """A recorded tensor, alone or beside others of the same value."""

    title: str
    sides: tuple[tuple[str, TensorRef], ...]
    """Name and tensor of each side; what follows the first is held against it."""
    layer: LayerAt | None = None
    """The QNN tensor whose encoding the integers have."""
    element: tuple[int, ...] | None = None
    """The element to begin at."""


@dataclass(frozen=True, slots=True)
class OutputAt:
    """An output of the model at one rung of the ladder, held against the rung before."""

    runner: RunnerName
    method: str
    sample: int
    output: int


Place = PageAt | LayerAt | PassAt | FindingAt | GraphAt | NodeAt | TensorAt | OutputAt

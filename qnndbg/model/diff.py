"""How two recordings differ, as data: side ``a`` against side ``b``.

What is equal is left out, so the difference of a recording with itself is empty. Swapping the sides swaps
the fields ``a`` and ``b``, and ``only_a`` and ``only_b``, and nothing else but the words of a status.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from qnndbg.model.recording import Fallback, Stage
from qnndbg.model.result import ErrorMetrics

DIFF_SCHEMA_VERSION = 1

Scalar = None | bool | int | float | str

PartingKind = Literal[
    "start",
    "between",
    "behaviour",
    "only-in-one",
    "order",
    "failed",
    "qnn",
    "inputs",
    "reference",
    "htp",
    "program",
    "partitions",
]
"""How two lowerings part; see :class:`Parting`."""

Trend = Literal["worse", "better", "same", "unknown"]
"""Of an error, from A to B."""

LayerStatus = Literal["regressed", "fixed", "worse", "better", "changed", "new", "gone"]
"""See :class:`LayerDiff`."""


class Change(Struct, frozen=True, kw_only=True):
    """One property that both sides have, with different values."""

    what: str
    """Such as ``scale``, ``shape``, ``op``, ``args[3]``, ``inputs``, ``torch``."""
    a: Scalar
    b: Scalar
    count: int = 1
    """How many values differ, where the property has several; the two are of the one that differs most."""


class Place(Struct, frozen=True, kw_only=True):
    """A node of one side, as people find it again."""

    name: str
    op: str
    module: str = ""
    source: str = ""
    created_by: str = ""


class NodeChange(Struct, frozen=True, kw_only=True):
    """A node that both sides have and that is not the same in both."""

    a: Place
    b: Place
    paired_by: str
    """The evidence that the two are one node; see :mod:`qnndbg.analyze.diff.pair`."""
    changes: tuple[Change, ...]


class GraphDiff(Struct, frozen=True, kw_only=True):
    """How two snapshots differ; names do not count, and neither does the order of independent nodes."""

    stage: Stage
    method: str
    partition: int | None
    nodes_a: int | None
    """Number of nodes; None if this side has no such graph."""
    nodes_b: int | None
    changed: tuple[NodeChange, ...]
    only_a: tuple[Place, ...]
    only_b: tuple[Place, ...]


class PassRun(Struct, frozen=True, kw_only=True):
    """One pass event of one side."""

    index: int
    name: str
    changed: bool = False
    error: str = ""


class PassDiff(Struct, frozen=True, kw_only=True):
    """A pass that ran on one side only, elsewhere in the order, or with another effect."""

    stage: Stage
    method: str
    partition: int | None
    a: PassRun | None
    b: PassRun | None
    moved: bool = False
    """Both sides have it, at another place in the order."""


class StageTime(Struct, frozen=True, kw_only=True):
    """Seconds that the passes of a stage took; no part of same or not."""

    stage: Stage
    a: float
    b: float


class Parting(Struct, frozen=True, kw_only=True):
    """The first place where the two lowerings are no longer the same.

    ``start``: the graphs differ before any pass. ``between``: no pass, but what lies between two recorded
    events. ``behaviour``: a pass got equal graphs and made different ones. ``only-in-one``: a pass or stage
    that the other side does not have. ``order``: the same passes in another order. ``failed``: a pass raised,
    or the recording ends, on one side. ``partitions``: another number of partitions. ``qnn``: equal graphs
    became different QNN graphs. ``program``: all of these are equal, the program is not. ``inputs``: the
    lowerings are equal, the inputs are not. ``reference``: the CPU's answer differs. ``htp``: only the HTP's
    numbers differ.
    """

    kind: PartingKind
    stage: str
    """A stage; or ``qnn``, ``program``, ``run`` behind the last one."""
    method: str
    partition: int | None = None
    a: PassRun | None = None
    """The event at which they part, of each side that has it."""
    b: PassRun | None = None
    graph: GraphDiff | None = None
    """How the graphs differ there, if both are there."""
    what: str = ""
    """Where it is no graph: the runner, input or program."""


class RungDiff(Struct, frozen=True, kw_only=True):
    """One rung of the ladder: the error of one output against eager, of the worst sample of each side."""

    name: str
    method: str
    output: int
    a: ErrorMetrics | None
    b: ErrorMetrics | None


class OutputDiff(Struct, frozen=True, kw_only=True):
    """An output that one runner gave on both sides for equal inputs: one side against the other."""

    runner: str
    method: str
    sample: int
    output: int
    sqnr_db: float | None
    """The larger of the two signals to the noise between them."""
    max_abs: float | None
    mismatched: int | None
    elements: int
    note: str = ""
    """Why there are no numbers."""
    rounding: bool = False
    """A CPU's floats that differ by no more than its kernels may between two runs, which is no difference."""


class LayerSide(Struct, frozen=True, kw_only=True):
    """A QNN tensor of one side, with its errors."""

    tensor: str
    method: str
    partition: int
    op: str
    qnn_op: str
    module: str
    source: str
    created_by: str
    dtype: str
    accumulated: ErrorMetrics | None
    local: ErrorMetrics | None


class LayerDiff(Struct, frozen=True, kw_only=True):
    """A layer that is not the same on both sides.

    ``regressed`` and ``fixed``: its local error grew or fell by more than rounding. ``worse`` and ``better``:
    only its accumulated error did. ``changed``: something else about it, or the numbers by less. ``new`` and
    ``gone``: one side has no such layer.
    """

    status: LayerStatus
    a: LayerSide | None
    b: LayerSide | None
    local: Trend
    accumulated: Trend
    changes: tuple[Change, ...] = ()


class QnnPlace(Struct, frozen=True, kw_only=True):
    """A QNN op of one side."""

    name: str
    type: str
    partition: int


class QnnOpDiff(Struct, frozen=True, kw_only=True):
    """A QNN op that is not the same on both sides."""

    method: str
    a: QnnPlace | None
    b: QnnPlace | None
    changes: tuple[Change, ...] = ()


class FallbackDiff(Struct, frozen=True, kw_only=True):
    """An op that stays on the CPU on one side only, or for another reason."""

    method: str
    a: Fallback | None
    b: Fallback | None


class Side(Struct, frozen=True, kw_only=True):
    """Which recording a side is."""

    target: str
    precision: str
    soc: str
    complete: bool
    failure: str = ""
    """Why it ends early."""


class Diff(Struct, frozen=True, kw_only=True):
    """How two recordings differ."""

    schema: int = DIFF_SCHEMA_VERSION
    same: bool
    """Nothing differs but, perhaps, the environment, names, provenance and times, and the CPU's rounding."""
    a: Side
    b: Side
    first_parting: Parting | None
    environment: tuple[Change, ...]
    """The environment, and what the recordings were made with; alone it is no difference."""
    methods: tuple[Change, ...]
    """Partitions, inputs and outputs of the program's methods."""
    fallbacks: tuple[FallbackDiff, ...]
    passes: tuple[PassDiff, ...]
    graphs: tuple[GraphDiff, ...]
    """The last snapshots of each stage that differ."""
    qnn: tuple[QnnOpDiff, ...]
    layers: tuple[LayerDiff, ...]
    rungs: tuple[RungDiff, ...]
    """Every rung of the outputs of which one rung differs."""
    outputs: tuple[OutputDiff, ...]
    outputs_note: str
    """Why outputs of the two sides were not compared with one another; empty if they were."""
    accuracy: tuple[Change, ...]
    """Runner to the number of samples that it gets right."""
    sizes: tuple[Change, ...]
    """Bytes of the programs, and the number of QNN ops."""
    times: tuple[StageTime, ...]

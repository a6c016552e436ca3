"""What a recording holds beside its graphs and tensors."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from qnndbg.model.graph import QuantParams, TensorRef

SCHEMA_VERSION = 1

Stage = Literal[
    "annotation",
    "quantized",
    "export",
    "edge",
    "transform",
    "partition",
    "preprocess",
    "executorch",
]
"""The stages of the lowering that leave graphs, in their order."""

RunnerName = Literal[
    "eager",
    "annotation",
    "quantized",
    "export",
    "edge",
    "transform",
    "reference",
    "local",
    "htp-tapped",
    "htp",
    "htp-given",
    "held",
]
"""Who computed the values of a run; see :class:`Run`."""

RUNGS: tuple[RunnerName, ...] = tuple(name for name in get_args(RunnerName) if name not in {"local", "held"})
"""Those whose outputs make a ladder, in its order."""


def is_half(precision: str) -> bool:
    """Whether floats are half floats inside the delegates; ``float`` is what is not quantised at all."""
    return precision.startswith("fp16") or precision == "float"


def casts_to_half(precision: str) -> bool:
    """Whether a pass makes half floats of the activations, as it does where only weights are quantised."""
    return precision.startswith("fp16a")


class Environment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything outside the model that can change an answer."""

    qnndbg: str
    python: str
    host: str
    packages: dict[str, str] = {}
    """Package name to version: torch, executorch, torchao, onnxruntime-qnn ..."""
    qnn_build: str = ""
    """Build id that the QNN library itself reports."""
    sdk: str = ""
    """How the SDK was found: ``path``, ``QNN_SDK_ROOT`` or ``pip``."""


class FailingNode(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the lowering was at when it failed: an op, or a partition of few."""

    name: str
    op: str
    module: str = ""
    source: str = ""


class Failure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a recording ends early."""

    step: str
    """The step that failed, such as ``lower``."""
    error: str
    hint: str = ""
    exit_code: int = 4
    stage: str = ""
    """The stage of the lowering that had begun last."""
    node: FailingNode | None = None


class Input(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tensor input of the model, in flattened order."""

    name: str
    tensor: TensorRef
    note: str = ""
    """What was done to it before it was used, such as made contiguous."""
    strides: tuple[int, ...] = ()
    """As it was given, if it was not contiguous."""
    method: str = "forward"
    sample: int = 0
    """0 for the example inputs; further inputs count from 1."""


class Fallback(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An op that stays on the CPU."""

    node: str
    op: str
    reason: str
    """What the partitioner or QNN's validator says."""
    method: str = "forward"


class Port(Struct, frozen=True, kw_only=True):
    """An input or output of the final program, as its caller sees it."""

    shape: tuple[int, ...]
    dtype: str


class Method(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One method of the final program."""

    name: str
    inputs: tuple[Port | None, ...] = ()
    """None for one that is no tensor."""
    fixed: tuple[bool | int | float | str | None, ...] = ()
    """The values of the inputs that are no tensors, in their order; export has fixed them."""
    outputs: tuple[Port | None, ...] = ()
    partitions: int = 0
    fallbacks: tuple[Fallback, ...] = ()


class Accuracy(Struct, frozen=True, kw_only=True):
    """Share of evaluation samples whose label each runner predicts."""

    samples: int
    correct: dict[str, int]
    """Runner to the number of samples that it gets right."""


class Manifest(Struct, frozen=True, kw_only=True):
    """The front page of a recording."""

    schema: int = SCHEMA_VERSION
    target: str
    """What was recorded, as given on the command line, without directories of this machine."""
    arguments: tuple[str, ...] = ()
    """Of a script that is the target; directories of this machine are left out of them too."""
    precision: str
    soc: str
    environment: Environment
    complete: bool = False
    failure: Failure | None = None
    inputs: tuple[Input, ...] = ()
    """Of all methods and samples."""
    methods: tuple[Method, ...] = ()
    """Of the final program."""
    op_packages: tuple[str, ...] = ()
    """Custom op packages that the backend was given."""
    notes: tuple[str, ...] = ()
    """What the reader must know of how the recording was made."""
    accuracy: Accuracy | None = None


class PassEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of one pass, or a stage's border that leaves a snapshot."""

    index: int
    stage: Stage
    name: str
    """The pass's class or function; empty for the snapshot with which a stage begins."""
    method: str = "forward"
    partition: int | None = None
    before: str = ""
    """Digest of the graph that the pass got; empty if it could not be captured."""
    after: str = ""
    changed: bool = False
    """The structure differs; renaming alone is no change."""
    claimed_modified: bool | None = None
    """What the pass said of itself."""
    seconds: float = 0.0
    error: str = ""
    arguments: dict[str, str] = {}
    """Of a pass that failed: what it was made with."""


FOLDED = "its builder folds the running statistics into it"
"""Why what the HTP holds of a constant is not to be held against that constant."""


class Held(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a static tensor holds, in the layout of its node; empty if it is what that has."""

    tensor: TensorRef | None = None
    """Where it is not the node's own constant."""
    encoding: QuantParams | None = None
    """Where it is not the node's."""
    problem: str = ""
    """Why it could not be told."""


class QnnTensor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tensor of a QNN graph."""

    name: str
    kind: Literal["input", "output", "native", "static", "null", "optional", "other"]
    dtype: str
    """QNN's own name without its prefix, such as ``UFIXED_POINT_16``."""
    shape: tuple[int, ...]
    """Stored layout."""
    encoding: QuantParams | None = None
    """As QNN holds it."""
    node: str = ""
    """The node of the partition's last graph that it is an output of; empty if none."""
    output: int = 0
    """Which output of that node."""
    held: Held | None = None
    """Of a static tensor that stands for a node; None if it was not looked at."""


class QnnOp(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An operator of a QNN graph."""

    name: str
    type: str
    package: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    params: dict[str, str] = {}


class QnnGraph(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one partition became."""

    method: str
    partition: int
    graph: str
    """Digest of the partition's last graph, whose nodes the tensors point to."""
    ops: tuple[QnnOp, ...]
    tensors: tuple[QnnTensor, ...]


class Value(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value that a run produced."""

    name: str
    """QNN tensor name inside a partition, else ``node@output``; ``output@0`` for a result."""
    partition: int | None = None
    tensor: TensorRef
    floor: float | None = None
    """In a local run: the RMS error, in real units, that rounding alone explains."""
    peak_floor: float | None = None
    """The same of a single element."""


RANDOM = "it draws random numbers, which are others each time"
"""The problem of an op of which no two runs compute the same."""


class Run(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Values that one runner computed for one input.

    ``eager``: the module. ``annotation``: the float graph behind the annotation passes. ``quantized``: what
    convert_pt2e returned. ``export``: behind the export passes. ``edge``: decomposed. ``transform``: the
    edge graph before to_backend. These and what follows are in quantised meaning. ``reference``: the
    partitions' last graphs, every QNN tensor. ``local``: the same, each op on the HTP's own inputs.
    ``htp-tapped`` and ``htp``: the emulator, with and without the dump of intermediates. ``htp-given``: the
    latter with the inputs in the memory layout that they were given in, where that is not contiguous.
    ``held``: no run, but the inputs and constants of the partitions as the HTP holds them, those of which it
    does not hold what the graph has, be it rounded to half floats.
    """

    runner: RunnerName
    method: str = "forward"
    sample: int = 0
    results: tuple[TensorRef | None, ...] = ()
    """The program's outputs in flattened order; None for one that is no tensor."""
    values: tuple[Value, ...] = ()
    """Intermediate values, where the runner gives them."""
    problems: dict[str, str] = {}
    """Node to the reason why it could not be evaluated; of a dump, why it is of no use."""

    @property
    def id(self) -> str:
        """Its name in the recording; the runner alone for the example inputs of ``forward``."""
        return (
            self.runner
            if (self.method, self.sample) == ("forward", 0)
            else f"{self.runner}.{self.method}.{self.sample}"
        )

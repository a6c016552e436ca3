"""What a comparison yields: the answer that reports, screens and gates show."""

from __future__ import annotations

import math
from typing import Literal

from msgspec import Struct

from qnndbg.model.attribution import PlaceKind, Step, over_floor
from qnndbg.model.graph import QuantParams

MAX_SQNR_DB = 200.0
"""SQNR is capped here; two equal tensors have this value, since JSON has no infinity."""


class ErrorMetrics(Struct, frozen=True, kw_only=True):
    """How far a target tensor is from its reference; None where a metric is undefined."""

    sqnr_db: float | None
    """Signal to quantisation noise ratio in dB, capped at ``MAX_SQNR_DB``; None for a zero signal."""
    max_abs: float | None
    mean_abs: float | None
    relative_l2: float | None
    cosine: float | None
    max_lsb: float | None
    """Largest error in integer steps of the encoding; None without an encoding."""
    max_ulp: float | None
    """Largest error in units in the last place of fp16 at the reference; None with an encoding."""
    rms_abs: float | None = None
    """Root of the mean squared error, in real units."""
    mismatched: int
    """Number of elements that differ at all."""
    nonfinite: int
    """Elements where either side is NaN or infinite and the two differ; left out of the others."""
    elements: int


Given = Literal["", "input", "constant", "state"]
"""What a QNN tensor that no op computes is; empty for what an op computes, and for what is left out."""


class LayerResult(Struct, frozen=True, kw_only=True):
    """One QNN tensor: the HTP against the CPU."""

    tensor: str
    method: str
    partition: int
    op: str
    """ATen name of the op, or QNN's where no node made it."""
    qnn_op: str
    module: str
    source: str
    created_by: str
    """The pass that invented the node."""
    shape: tuple[int, ...]
    dtype: str
    """Native dtype on the HTP."""
    reference_dtype: str
    encoding: QuantParams | None
    """As QNN holds it."""
    reference_encoding: QuantParams | None
    """As the graph has it."""
    accumulated: ErrorMetrics | None
    """HTP against the CPU, each on its own inputs."""
    local: ErrorMetrics | None
    """HTP against the CPU evaluating this one op on the HTP's own inputs."""
    reason: str
    """Why nothing could be compared; empty if it was."""
    floor: float | None = None
    """RMS error, in real units, that rounding alone explains."""
    peak_floor: float | None = None
    """Error of a single element, in real units, that rounding alone explains."""
    effect: float | None = None
    """Share of the backend's error of the worst output that is made here; may be negative."""
    fused: bool = False
    """The HTP did not clip here, since it fuses the op with the next one."""
    given: Given = ""
    """Of what no op computes: its error is between what the HTP holds and what the graph has."""
    overflowed: bool = False
    """It reads what overflows half floats, so that it only passes on what went wrong before."""

    @property
    def excess(self) -> float | None:
        """Local error over noise floor; infinite where rounding explains nothing of it."""
        return None if self.local is None else self._over_floor(self.local)

    @property
    def inherited(self) -> float | None:
        """The same of the accumulated error."""
        return None if self.accumulated is None else self._over_floor(self.accumulated)

    def _over_floor(self, error: ErrorMetrics) -> float | None:
        if self.floor is None:
            return None
        if not error.mismatched:
            return 0.0
        if error.nonfinite or error.rms_abs is None:
            return math.inf
        return over_floor(error.rms_abs, error.max_abs or 0.0, self.floor, self.peak_floor)


class Rung(Struct, frozen=True, kw_only=True):
    """One step of the ladder: the error of one output at one stage."""

    name: str
    method: str = "forward"
    sample: int = 0
    output: int
    against_eager: ErrorMetrics | None
    against_previous: ErrorMetrics | None
    """Against the rung before; None on the first."""
    note: str = ""


class Counted(Struct, frozen=True, kw_only=True):
    """Of inputs or constants: how many the HTP holds as the graph has them, but for rounding."""

    same: int = 0
    total: int = 0


class Coverage(Struct, frozen=True, kw_only=True):
    """How many of the QNN tensors that an op computes were compared, and why the others were not."""

    compared: int
    total: int
    reasons: dict[str, int]
    """Reason to the number of computed tensors that were not compared."""
    given: dict[str, int] = {}
    """The same of tensors that no op computes, such as optional inputs; not part of the total."""
    inputs: Counted = Counted()
    constants: Counted = Counted()

    @property
    def share(self) -> float | None:
        """Compared over total; None if there was nothing to compare."""
        return self.compared / self.total if self.total else None


Cause = Literal[
    "kernel",
    "builder",
    "fused",
    "overflow",
    "flushed",
    "precision",
    "integers",
    "stagnation",
    "state",
    "amplified",
    "rounding",
    "flipped",
    "clipped",
    "wide range",
    "outlier channel",
    "few bits",
]
"""Why a place makes an error; :mod:`qnndbg.analyze.causes` says when each holds."""


class Source(Struct, frozen=True, kw_only=True):
    """A place that makes a part of an output's error."""

    step: Step
    method: str
    sample: int
    output: int
    """The output that the share is of."""
    kind: PlaceKind
    name: str
    """QNN tensor, graph input, parameter or node."""
    called: str = ""
    """What a user calls it, told apart from the other sources of the output."""
    op: str
    module: str
    source: str
    role: str = ""
    """Of a constant: what it is to the op, such as ``weight``."""
    share: float
    """Of the output's error in this step."""
    explained: float | None = None
    """Sum of all linear effects on that output: near 1 the slope tells the whole error."""
    measured: bool = True
    """By putting the target's values in place by place; else estimated by the slope."""
    excess: float | None
    """Local error over noise floor; None where rounding explains none of it."""
    cause: Cause
    detail: str
    """What the cause rests on, as half a sentence with numbers."""
    magnified_by: str = ""
    """The op behind it, and where that is, that magnifies its error most; empty if none does."""


VerdictKind = Literal[
    "clean",
    "quantisation",
    "pass",
    "backend",
    "format",
    "amplification",
    "input",
    "dtype",
    "graph",
    "lowering",
    "incomplete",
]
"""Who is to blame; ``format`` is what half floats cannot hold, ``graph`` what was not delegated."""


class Verdict(Struct, frozen=True, kw_only=True):
    """One line: what is wrong, and who did it."""

    kind: VerdictKind
    text: str
    culprit: str
    """QNN tensor, pass, constant, input or output name; empty if there is none."""
    next_step: str
    op: str = ""
    """The culprit's op, where it is one."""
    share: float | None = None
    """Share of the output's error in the guilty step that the culprit makes."""
    confidence: Literal["", "measured", "estimated"] = ""
    """Measured by putting the target's values in place by place, or estimated linearly."""


Severity = Literal["error", "warning", "note"]
"""An error makes an output wrong, a warning may with other inputs, a note explains."""


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule that holds for a recording."""

    rule: str
    """Its stable id, such as ``QD101``."""
    severity: Severity
    where: str
    """QNN tensor, node, pass, input or output."""
    message: str
    """What is the case, as one sentence without a full stop."""
    evidence: str = ""
    """The numbers that it rests on."""
    help: str = ""
    """What to do."""
    method: str = "forward"
    module: str = ""
    source: str = ""
    """``file:line`` of the user's code."""


class Comparison(Struct, frozen=True, kw_only=True):
    """The whole answer for one recording."""

    verdict: Verdict
    ladder: tuple[Rung, ...]
    layers: tuple[LayerResult, ...]
    coverage: Coverage
    sources: tuple[Source, ...] = ()
    """Step by step, those of the output that it changes most first, by falling share."""
    findings: tuple[Finding, ...] = ()
    """By severity, then by rule."""

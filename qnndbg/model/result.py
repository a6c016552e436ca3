"""What a comparison yields: the answer that reports, screens and gates show."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

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
    mismatched: int
    """Number of elements that differ at all."""
    nonfinite: int
    """Elements where either side is NaN or infinite and the two differ; left out of the others."""
    elements: int


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


class Rung(Struct, frozen=True, kw_only=True):
    """One step of the ladder: the error of one output at one stage."""

    name: str
    method: str = "forward"
    output: int
    against_eager: ErrorMetrics | None
    against_previous: ErrorMetrics | None
    """Against the rung before; None on the first."""
    note: str = ""


class Coverage(Struct, frozen=True, kw_only=True):
    """How many of the QNN tensors that an op computes were compared, and why the others were not."""

    compared: int
    total: int
    reasons: dict[str, int]
    """Reason to the number of computed tensors that were not compared."""
    given: dict[str, int] = {}
    """Tensors that no op computes, such as graph inputs and weights; not part of the total."""

    @property
    def share(self) -> float | None:
        """Compared over total; None if there was nothing to compare."""
        return self.compared / self.total if self.total else None


class Verdict(Struct, frozen=True, kw_only=True):
    """One line: what is wrong, and who did it."""

    kind: Literal["clean", "quantisation", "pass", "backend", "input", "incomplete"]
    text: str
    culprit: str
    """QNN tensor, pass or input name; empty if there is none."""
    next_step: str


class Comparison(Struct, frozen=True, kw_only=True):
    """The whole answer for one recording."""

    verdict: Verdict
    ladder: tuple[Rung, ...]
    layers: tuple[LayerResult, ...]
    coverage: Coverage

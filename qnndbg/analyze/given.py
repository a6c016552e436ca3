"""What no op computes: inputs and constants, compared as the HTP holds them with what the graph has.

They inherit nothing, so there is one error, the local one. What is held as it is was stored on neither side;
what half floats only round is rounded here.
Owns the reasons why such a tensor is not compared; refuses optional inputs that are left out.
"""

from __future__ import annotations

import math

from qnndbg.analyze.causes import FLOOR_LIMIT
from qnndbg.analyze.metrics import measure
from qnndbg.analyze.normalize import half_of, same_rank, value_on_cpu, value_on_htp
from qnndbg.model.graph import Node, TensorRef
from qnndbg.model.recording import QnnTensor, Run, is_half
from qnndbg.model.result import MAX_SQNR_DB, Counted, ErrorMetrics, Given, LayerResult
from qnndbg.recording.store import Recording

REASONS = {
    "input": "graph input: both sides are given it",
    "static": "weight: held, not computed",
    "null": "optional input that is left out",
    "optional": "optional input that is left out",
}
"""Kind of a tensor that no op computes to the reason why it is not compared, where nobody looked at it."""
STATE = "state: the program has no start value of it"
BUILT = "constant that a builder makes; the graph has none for it"


def given_as(tensor: QnnTensor, node: Node | None) -> Given:
    """What a tensor that no op computes is to its graph; empty for what is neither input nor constant."""
    if node is not None and node.role == "state":
        return "state"
    if tensor.kind == "static":
        return "constant"
    return "input" if tensor.kind == "input" else ""


def reason_of(tensor: QnnTensor, node: Node | None, held: Run | None) -> str:
    """Why it cannot be compared; empty if it can.

    Args:
        tensor: that no op computes.
        node: which it stands for.
        held: what the HTP holds, of those that it holds otherwise; None if nobody looked.
    """
    given = given_as(tensor, node)
    if held is None or not given:
        return REASONS.get(tensor.kind, "no op computes it")
    if given == "state":
        return STATE
    if given == "input":
        return held.problems.get(tensor.name, "")
    if node is None or node.constant is None:
        return BUILT
    return tensor.held.problem if tensor.held is not None else "what QNN was given was not seen"


def error_of(
    recording: Recording, tensor: QnnTensor, reference: TensorRef | None, held: TensorRef | None
) -> ErrorMetrics | None:
    """The error of an input or constant; None if the shapes differ.

    Args:
        recording: the one that it is of.
        tensor: the QNN tensor.
        reference: as the graph has it.
        held: as the HTP holds it; None if that is the same, but for the rounding of half floats.
    """
    half = is_half(recording.manifest.precision)
    fp16 = half and tensor.dtype.startswith("FLOAT")
    if reference is None or (held is None and not half):
        return _none(math.prod(tensor.shape), fp16=fp16)
    value = value_on_cpu(recording.tensor(reference), reference.dtype, half=half)
    if value is None:
        return None
    target = half_of(value) if held is None else value_on_htp(recording.tensor(held), None, half=half)
    target = same_rank(value, target)
    return measure(value, target, fp16=fp16) if target.shape == value.shape else None


def _none(elements: int, *, fp16: bool) -> ErrorMetrics:
    return ErrorMetrics(
        sqnr_db=MAX_SQNR_DB,
        max_abs=0.0,
        mean_abs=0.0,
        relative_l2=0.0,
        cosine=1.0,
        max_lsb=None,
        max_ulp=0.0 if fp16 else None,
        rms_abs=0.0,
        mismatched=0,
        nonfinite=0,
        elements=elements,
    )


def counted(layers: tuple[LayerResult, ...], given: Given) -> Counted:
    """How many of them the HTP holds as the graph has them, but for rounding; none where nobody looked."""
    mine = [la for la in layers if la.given == given and la.reason not in REASONS.values()]
    same = [layer for layer in mine if not layer.reason and (layer.excess or 0.0) <= FLOOR_LIMIT]
    return Counted(same=len(same), total=len(mine))

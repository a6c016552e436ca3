"""What a check of a recording against a baseline and a policy yields."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from qnndbg.model.diff import Change, Parting, Scalar, Side
from qnndbg.model.result import Verdict

TRIAGE_SCHEMA_VERSION = 1

JudgementStatus = Literal["regressed", "missing", "waived", "fixed", "new", "unchanged"]
"""In the order in which they are shown; only what a judgement says to fail makes a check fail."""

Subject = Literal["output", "accuracy", "layer", "dtype", "fallback", "coverage"]
"""What was judged, in the order in which it is shown."""


class Blame(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whose change it is."""

    by: str
    """The pass where the two part, or the first rung whose numbers moved; empty if nothing tells."""
    rung: str = ""
    """Of an output: the first rung of the ladder whose error moved."""
    changes: tuple[Change, ...] = ()
    """Of a layer: what else about it is not the same."""
    culprit: str = ""
    """What the recording's own verdict names."""


class Judgement(Struct, frozen=True, kw_only=True):
    """One thing that a policy has a limit for, held against it."""

    subject: Subject
    where: str
    """QNN tensor, node, or such as ``output 0``."""
    method: str = "forward"
    op: str = ""
    module: str = ""
    source: str = ""
    """``file:line`` of the user's code."""
    status: JudgementStatus
    fails: bool = False
    """With this the check fails."""
    before: Scalar = None
    """In the baseline; None if it has no such thing."""
    now: Scalar = None
    unit: str = ""
    """``dB``, ``× floor``, ``right`` or nothing."""
    limit: float | None = None
    said_by: str = ""
    """The entry of the policy that it was judged by, such as ``limits.excess``."""
    waiver: str = ""
    """Why it is let pass, and until when."""
    blame: Blame | None = None


class Triage(Struct, frozen=True, kw_only=True):
    """The outcome of a check."""

    schema: int = TRIAGE_SCHEMA_VERSION
    passed: bool
    recording: Side
    baseline: Side | None
    """None if the policy alone was asked."""
    counts: dict[JudgementStatus, int]
    """How many judgements have which status, the unchanged ones among them."""
    judgements: tuple[Judgement, ...]
    """All but those that are unchanged."""
    parting: Parting | None
    """The first place where the lowering is no longer that of the baseline (side A)."""
    verdict: Verdict
    """The recording's own."""
    environment: tuple[Change, ...]
    """What about the environment is not that of the baseline."""
    notes: tuple[str, ...] = ()
    """What a reader must know of how it was judged."""

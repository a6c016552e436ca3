"""How the error of one output splits over the places where errors are made."""

from __future__ import annotations

import math
from typing import Literal

from msgspec import Struct

Step = Literal["quantisation", "backend"]
"""Eager against the quantised model on the CPU; that against the HTP."""
SMOOTH = 0.2
"""An effect of which the slope explains less than this share passes through a jump."""
PlaceKind = Literal["op", "input", "constant"]


PEAKS = 2.0
"""A single element may show this many times as much over its floor as the RMS over its own."""


def over_floor(error: float, peak: float, floor: float, peak_floor: float | None) -> float:
    """An error as a multiple of what rounding explains; infinite if that is nothing.

    The larger of two multiples: of the RMS, and, for errors of a few elements, half of that of the largest.
    """
    if not error:
        return 0.0
    if not floor:
        return math.inf
    return max(error / floor, peak / peak_floor / PEAKS if peak_floor else 0.0)


class Rounding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an encoding does to the values of one place."""

    bits: int
    clipped: float
    """Share of the elements that lie outside of the range."""
    clipped_energy: float
    """Share of the squared error that these elements make."""
    range_used: float
    """Span of the values over the span of the range; above 1 where values are clipped."""
    channel: int | None = None
    """The channel (second axis; first of a weight) with the largest squared error, where there is one."""
    channel_share: float = 0.0
    """Its share of the squared error."""
    channels: int = 0
    spread: float = 1.0
    """Largest over median magnitude of the channels: an outlier channel shows here."""


class Effect(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The error that is made at one place, and its share of the output's error."""

    kind: PlaceKind
    name: str
    """QNN tensor, graph input, parameter or node."""
    node: str
    partition: int | None = None
    output: int = 0
    op: str = ""
    """The op; of a constant, the one that reads it."""
    role: str = ""
    """Of a constant: what it is to that op, such as ``weight`` or ``bias``."""
    module: str = ""
    source: str = ""
    error: float
    """RMS of the error made here, in real units."""
    accumulated: float = 0.0
    """RMS of the error that is here, what it inherits included."""
    floor: float = 0.0
    """RMS that rounding explains here."""
    peak_error: float = 0.0
    """Of a single element."""
    peak_floor: float | None = None
    signal: float = 0.0
    """RMS of the reference."""
    linear: float | None = None
    exact: float | None = None
    rounding: Rounding | None = None
    half: bool = False
    """It is a half float on the HTP."""
    peak: float = 0.0
    """Largest magnitude of the reference."""
    flushed: float = 0.0
    """Share of its elements of which half precision leaves less than eight bits, if they make most of its
    error."""
    faint: float = 0.0
    """Share of the energy of what it computes or reads that half precision leaves less than eight bits."""
    integers: bool = False
    """All that the op reads are whole numbers."""
    stagnates: bool = False
    """It sums numbers that are less than half a unit in the last place of the sum."""
    state: str = ""
    """The state that the op reads, if it reads one."""
    fused: bool = False
    """The HTP did not clip here, since it fuses the op with the next one."""
    change: str = ""
    """Of a constant that QNN is given otherwise than the graph has it: how that comes, as half a sentence."""

    @property
    def share(self) -> float:
        """Share of the output's error; exact if it was found, else linear."""
        return self.exact if self.exact is not None else self.linear or 0.0

    @property
    def flips(self) -> bool:
        """Whether a jump lies behind it, so that its effect has little to do with the slope there."""
        return self.exact is not None and abs(self.linear or 0.0) < SMOOTH * abs(self.exact)

    @property
    def excess(self) -> float:
        """Error over floor: above 1 it is more than rounding explains on average; infinite if none is."""
        if not self.error:
            return 0.0
        return over_floor(self.error, self.peak_error, self.floor, self.peak_floor)


class Attribution(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One output's error in one step, split over its places."""

    step: Step
    method: str
    sample: int = 0
    output: int = 0
    error: float
    """L2 norm of the output's error in this step."""
    signal: float
    """L2 norm of the output before the step."""
    explained: float | None = None
    """Sum of the linear effects; None if the output has no gradient."""
    effects: tuple[Effect, ...] = ()
    """In the order of execution; those without error and without effect are left out."""

    @property
    def id(self) -> str:
        """Its name in the recording."""
        return f"{self.step}.{self.method}.{self.sample}.{self.output}"


class PassChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The pass that changed the numbers between two rungs of the ladder that should agree."""

    method: str
    sample: int = 0
    after: str
    """The last rung that was right."""
    before: str
    """The first rung that was not."""
    event: int
    """Index of the pass event."""
    stage: str
    name: str
    partition: int | None = None
    digests: tuple[str, str]
    """The graphs before and after it."""
    node: str = ""
    """Of the latter, with which the numbers begin to differ; empty if none could be told."""
    narrowed: bool = False
    """Values of int64 that int32 cannot hold go through it."""

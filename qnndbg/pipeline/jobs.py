"""What the parent and its worker say to each other."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from qnndbg.model.graph import TensorRef

Report = Callable[[dict[str, object]], None]
"""Sends an event to the parent: a ``step`` that begins, a ``pass`` that ran, or what was ``lowered``."""

MEASURES = ("htp", "htp-tapped", "refer")
"""What is done with the two programs, in this order: execute both, and run the CPU references."""


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """Labelled evaluation samples, one stacked tensor per model input."""

    inputs: tuple[TensorRef, ...]
    labels: tuple[int, ...]


class Lowered(msgspec.Struct, frozen=True, kw_only=True):
    """What the steps after the lowering must know of it."""

    tapped: bool
    """Whether the build with the dump exists."""
    samples: Samples | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Lower a target, as it is and with all intermediates dumped, and measure the two programs.

    One worker does all of it, as starting one costs more than most of the work. Each step is saved
    before the next begins, so after a crash another worker goes on behind the step that did it.
    """

    folder: str
    target: str
    precision: str
    soc: str
    sdk: str
    lowered: Lowered | None = None
    """What an earlier worker lowered; None to begin with the lowering."""
    measures: tuple[str, ...] = MEASURES

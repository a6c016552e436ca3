"""What the parent and its workers say to each other."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from qnndbg.model.graph import TensorRef

Report = Callable[[dict[str, object]], None]
"""Sends an event to the parent: a ``step`` that begins, or a ``pass`` that ran."""


class LowerJob(msgspec.Struct, frozen=True, kw_only=True):
    """Export, quantise and lower a target, twice: as it is, and with all intermediates dumped."""

    folder: str
    target: str
    precision: str
    soc: str
    sdk: str


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """Labelled evaluation samples, one stacked tensor per model input."""

    inputs: tuple[TensorRef, ...]
    labels: tuple[int, ...]


class LowerResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the parent must know for the jobs that follow."""

    tapped: bool
    """Whether the build with the dump exists."""
    samples: Samples | None = None


MEASURES = ("htp", "htp-tapped", "refer")
"""The steps of a :class:`MeasureJob`, in their order."""


class MeasureJob(msgspec.Struct, frozen=True, kw_only=True):
    """Execute the two programs on the emulator, and run the CPU references.

    One worker for all of it, as starting one costs more than the work; each step is saved before the
    next begins, so after a crash another worker goes on behind the step that did it.
    """

    folder: str
    sdk: str
    steps: tuple[str, ...]
    samples: Samples | None = None

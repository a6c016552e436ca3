"""The ladder of each layer: the error that every rung adds to it."""

from __future__ import annotations

from msgspec import Struct

from qnndbg.model.recording import RunnerName


class LayerRungs(Struct, frozen=True, kw_only=True):
    """One QNN tensor at each rung; of both tuples, one entry for each of the ladder's rungs.

    An entry is an SQNR in dB, at most 200 (bit-equal); None where the rung has no such value, where there is
    nothing to compare it with, or where that is zero throughout.
    """

    tensor: str
    partition: int
    against_eager: tuple[float | None, ...]
    against_previous: tuple[float | None, ...]
    """Against the last rung before that has the value."""


class LayerLadder(Struct, frozen=True, kw_only=True):
    """The layers of one sample of one method, rung by rung."""

    method: str = "forward"
    sample: int = 0
    rungs: tuple[RunnerName, ...]
    layers: tuple[LayerRungs, ...]

    @property
    def id(self) -> str:
        """Its name in the recording."""
        return f"{self.method}.{self.sample}"

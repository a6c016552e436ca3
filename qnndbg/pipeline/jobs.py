"""What the parent and its worker say to each other."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from qnndbg.model.graph import TensorRef

Report = Callable[[dict[str, object]], None]
"""Sends an event to the parent: a ``step`` that begins, a ``pass`` that ran, what was ``lowered`` ..."""

MEASURES = ("htp", "htp-tapped", "refer")
"""What is done with the programs of a recording, in this order: execute them, run the CPU references."""


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """Labelled evaluation samples, one stacked tensor per model input."""

    inputs: tuple[TensorRef, ...]
    labels: tuple[int, ...]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of one recording."""

    folder: str
    step: str
    samples: Samples | None = None


class Lowered(msgspec.Struct, frozen=True, kw_only=True):
    """A recording whose lowering is done."""

    folder: str
    samples: Samples | None = None
    steps: tuple[str, ...] = MEASURES
    """What can be measured."""

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All measurements of it."""
        return tuple(Task(folder=self.folder, step=step, samples=self.samples) for step in self.steps)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Lower a target or run a script that lowers, and measure what comes of it.

    One worker does all of it, as starting one costs more than most of the work. Each step is saved
    before the next begins, so after a crash another worker goes on behind the step that did it.
    """

    folder: str
    """The recording's folder; further lowerings of a script go beside it."""
    target: str
    precision: str = ""
    soc: str = ""
    sdk: str = ""
    arguments: tuple[str, ...] | None = None
    """The arguments of a script; None if the target is a factory."""
    log: str = ""
    """Where native noise goes once a script, whose output is its own, has ended."""
    tasks: tuple[Task, ...] | None = None
    """What is left to be measured; None to begin with the lowering."""

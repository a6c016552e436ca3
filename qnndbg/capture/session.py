"""All lowerings that happen in a block of somebody's code, one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch.export import ExportedProgram

from qnndbg.capture.lowering import Lowering
from qnndbg.capture.recorder import Recorder


@dataclass(slots=True)
class Session:
    """Knows which lowering is at work, and what the hooks of one stage must tell those of the next."""

    new_recorder: Callable[[int], Recorder]
    """Makes the recorder of the lowering with that number, counted from 0."""
    on_known: Callable[[Lowering], None] = lambda _lowering: None
    """Called once inputs and compile specs of a method are known."""
    lowerings: list[Lowering] = field(default_factory=list)
    methods: dict[int, str] = field(default_factory=dict)
    """Identity of a program to its method, while a stage goes through several methods."""
    queue: list[str] = field(default_factory=list)
    """Methods whose edge program is still to be generated."""
    partitions: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Identity of a partition's program to its method and number."""
    emitting: dict[str, tuple[Recorder, ExportedProgram]] = field(default_factory=dict)
    """The programs that ``to_executorch`` is at work on, by method, and who records their passes."""

    process: int = field(default_factory=os.getpid)
    """Whose lowerings these are: a child that was forked would write into the same recordings."""
    tapped: Lowering | None = None
    """The lowering that is being built once more; only its QNN graphs are of interest then."""

    @property
    def lowering(self) -> Lowering:
        """The lowering at work; the first one begins when it is first asked for."""
        if not self.lowerings:
            self._begin()
        return self.lowerings[-1]

    @property
    def recorder(self) -> Recorder:
        """The recorder of the lowering at work."""
        return self.lowering.recorder

    @property
    def active(self) -> Recorder:
        """The recorder of what runs passes now; ``to_executorch`` may come back to an earlier lowering."""
        return next((recorder for recorder, _ in self.emitting.values()), self.recorder)

    def start(self, method: str = "") -> None:
        """A model enters the lowering: once the last one was delegated or failed, this is the next one.

        Args:
            method: as which it enters; empty if it is not exported yet.
        """
        last = self.lowering
        over = last.edge_manager is not None or last.edge_programs or last.recorder.failed is not None
        if over or method in last.inputs:
            self._begin()

    def tapped_program(self, lowering: Lowering, method: str) -> bytes:
        """Build a method of a lowering again, with the dump; its QNN graphs replace the first."""
        self.tapped = lowering
        try:
            return lowering.tapped_program(method)
        finally:
            self.tapped = None

    def _begin(self) -> None:
        self.partitions = {}
        self.lowerings.append(Lowering(self.new_recorder(len(self.lowerings))))

    def method_of(self, program: Any) -> str | None:
        """The method that a program belongs to, if a stage announced it."""
        return self.methods.get(id(program))

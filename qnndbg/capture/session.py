"""All lowerings that happen in a block of somebody's code, one after the other."""

from __future__ import annotations

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
    lowerings: list[Lowering] = field(default_factory=list)
    methods: dict[int, str] = field(default_factory=dict)
    """Identity of a program to its method, while a stage goes through several methods."""
    queue: list[str] = field(default_factory=list)
    """Methods whose edge program is still to be generated."""
    partitions: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Identity of a partition's program to its method and number."""
    emitting: dict[str, ExportedProgram] = field(default_factory=dict)
    """The programs that ``to_executorch`` is at work on, by method."""
    lowering_method: str = "forward"
    """The method that ``to_backend`` is at work on, where it takes one program."""

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

    def start(self) -> None:
        """A model enters the lowering: once the last one was delegated, this is the next one."""
        if self.lowering.edge_programs and self.recorder.passes:
            self._begin()

    def _begin(self) -> None:
        self.lowerings.append(Lowering(self.new_recorder(len(self.lowerings))))

    def method_of(self, program: Any) -> str | None:
        """The method that a program belongs to, if a stage announced it."""
        return self.methods.get(id(program))

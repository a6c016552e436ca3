"""What the tests of the rules share: a recording made by hand, and a rule with what makes it fire or not.

For a new rule add a ``Case`` to the list of its family; a test says if one is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qnndbg.analyze.rules import find
from qnndbg.analyze.rules.context import Context
from qnndbg.model.graph import Graph, Node
from qnndbg.model.recording import PassEvent, QnnGraph, QnnTensor, Run
from qnndbg.model.result import Finding, Rung, Severity
from qnndbg.recording.store import open_recording
from qnndbg.recording.writer import Writer
from tests.unit.evidence import evidence, half
from tests.unit.recordings import manifest

WRONG = half(20.0)
"""A ladder on which the backend makes the output wrong."""
SOUND = half(80.0)


@dataclass(frozen=True, kw_only=True)
class Made:
    """What a recording holds and what its comparison rests on; nothing of it has to be there."""

    ladder: tuple[Rung, ...] = SOUND
    manifest: dict[str, Any] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)
    passes: tuple[PassEvent, ...] = ()
    runs: Sequence[Callable[[Writer], Run]] = ()
    nodes: tuple[Node, ...] = ()
    """Of the last graph of the only partition."""
    tensors: tuple[QnnTensor, ...] = ()
    exported: tuple[Node, ...] = ()
    """Of the graph with which the export begins."""

    def context(self, folder: Path) -> Context:
        """Write the recording."""
        writer = Writer(folder)
        writer.manifest(manifest("fp16", **self.manifest))
        for event in self.passes:
            writer.pass_event(event)
        if self.exported:
            digest = writer.graph(Graph(nodes=self.exported, outputs=()))
            writer.pass_event(PassEvent(index=99, stage="export", name="", after=digest))
        for make in self.runs:
            writer.run(make(writer))
        if self.nodes:
            digest = writer.graph(Graph(nodes=self.nodes, outputs=()))
            writer.qnn_graph(
                QnnGraph(method="forward", partition=0, graph=digest, ops=(), tensors=self.tensors)
            )
        rests_on = evidence(self.ladder, **{"precision": "fp16", **self.evidence})
        return Context(open_recording(folder), rests_on)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A rule, what just makes it fire, and what just does not."""

    rule: str
    severity: Severity
    where: str
    fires: Made
    misses: Made
    about: str = ""
    """Tells cases of one rule apart."""

    @property
    def id(self) -> str:
        """Its name in the test report."""
        return f"{self.rule} {self.about}".strip()


def found(case: Case, made: Made, folder: Path) -> tuple[Finding, ...]:
    """The findings of the case's rule."""
    return tuple(finding for finding in find(made.context(folder)) if finding.rule == case.rule)


def check_fires(case: Case, folder: Path) -> None:
    """It is found once, as bad as it should be, at the right place."""
    assert [(f.severity, f.where) for f in found(case, case.fires, folder)] == [(case.severity, case.where)]


def check_misses(case: Case, folder: Path) -> None:
    """It is not found."""
    assert found(case, case.misses, folder) == ()

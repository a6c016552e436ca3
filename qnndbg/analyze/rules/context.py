"""What rules look at."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from qnndbg.analyze.phrases import one_line
from qnndbg.analyze.rules.catalog import CATALOG
from qnndbg.analyze.verdict import SPLIT, Evidence, StepName, faults
from qnndbg.model.graph import Graph, Origin
from qnndbg.model.result import Finding, Severity
from qnndbg.recording.store import Recording


@dataclass(frozen=True)
class Context:
    """A recording, and what its comparison rests on."""

    recording: Recording
    evidence: Evidence

    @functools.cached_property
    def faults(self) -> frozenset[tuple[StepName, str, int, int]]:
        """The steps that make an output wrong: step, method, sample and output."""
        return faults(self.evidence)

    @functools.cached_property
    def split_faults(self) -> frozenset[tuple[StepName, str, int, int]]:
        """Those whose error the sources make: no other build's, nor that of an output with other bytes."""
        swapped = {(payload.method, payload.output) for payload in self.evidence.payloads}
        wrong = faults(self.evidence, SPLIT)
        return frozenset(f for f in wrong if f[0] != "backend" or (f[1], f[3]) not in swapped)

    def is_wrong(self, step: StepName, method: str) -> bool:
        """Whether a step makes any output of a method wrong."""
        return any((name, of) == (step, method) for name, of, _, _ in self.faults)

    @functools.cached_property
    def last_graphs(self) -> dict[tuple[str, int], Graph]:
        """Method and partition to the last graph of the partition."""
        return {(q.method, q.partition): self.recording.graph(q.graph) for q in self.recording.qnn}


def finding(
    rule: str,
    severity: Severity,
    where: str,
    message: str,
    *,
    evidence: str = "",
    origin: Origin | None = None,
    **more: Any,
) -> Finding:
    """A finding with the help of its rule.

    Args:
        rule: its id.
        severity: how bad it is here.
        where: the place.
        message: one sentence without a full stop.
        evidence: the numbers that it rests on.
        origin: of the node that it is about.
        more: further fields.
    """
    if origin is not None:
        more = {"module": origin.module_path, "source": origin.source, **more}
    return Finding(
        rule=rule,
        severity=severity,
        where=where,
        message=one_line(message),
        help=CATALOG[rule].help,
        evidence=one_line(evidence),
        **more,
    )

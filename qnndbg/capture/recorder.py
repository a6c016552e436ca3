"""Follows one lowering: which stage, method and partition is at work, and what each pass did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from executorch.backends.qualcomm.utils.constants import QCOM_AXIS_ORDER
from msgspec.structs import replace
from torch.export import ExportedProgram

from qnndbg.capture.provenance import Lineage
from qnndbg.capture.seen import Seen
from qnndbg.capture.settings import settings_of
from qnndbg.capture.snapshot import Weights, graph_from_module, graph_from_program
from qnndbg.model.graph import Graph
from qnndbg.model.recording import PassEvent, Stage
from qnndbg.recording.schema import structure_digest
from qnndbg.recording.writer import Writer


@dataclass(slots=True)
class Scope:
    """Where in the lowering we are."""

    stage: Stage
    method: str
    partition: int | None
    program: ExportedProgram | None
    """The program that the stage works on, which knows what the placeholders stand for."""
    stored: str = ""
    """Digest of the last snapshot."""
    structure: str = ""
    """Digest of its structure; empty if nobody asked yet."""
    last: Graph | None = None


@dataclass(slots=True)
class Recorder:
    """Writes snapshots and pass events.

    Passes that run inside another pass, or outside of any stage, are part of what surrounds them
    and leave no event of their own.
    """

    writer: Writer
    on_event: Callable[[PassEvent], None] = lambda _event: None
    scope: Scope | None = None
    count: int = 0
    latest: str = ""
    """The last stage that was entered."""
    failed: PassEvent | None = None
    """The pass that raised."""
    weights: Weights = field(init=False)
    lineages: dict[tuple[str, int | None], Lineage] = field(default_factory=dict)
    """Method and partition to where their nodes come from."""
    seen: dict[tuple[str, int | None], Seen] = field(default_factory=dict)
    """Method and partition to the nodes of their last snapshot."""
    _depth: int = 0

    def __post_init__(self) -> None:
        self.weights = Weights(self.writer)

    @contextmanager
    def stage(
        self,
        stage: Stage,
        graph: ExportedProgram | torch.fx.GraphModule,
        *,
        method: str = "forward",
        partition: int | None = None,
        begin: str = "",
    ) -> Iterator[None]:
        """A stage for the time of the block; see :meth:`enter`."""
        entered = self.enter(stage, graph, method=method, partition=partition, begin=begin)
        try:
            yield
        finally:
            if entered:
                self.leave(stage)

    def enter(
        self,
        stage: Stage,
        graph: ExportedProgram | torch.fx.GraphModule,
        *,
        method: str = "forward",
        partition: int | None = None,
        begin: str = "",
    ) -> bool:
        """Enter a stage with a snapshot, and say whether that was done.

        Stages do not nest: one inside another belongs to it. ``begin`` names what made the graph, where
        that was no pass.
        """
        if self.scope is not None:
            return False
        program = graph if isinstance(graph, ExportedProgram) else None
        self.scope = Scope(stage, method, partition, program)
        self.latest = stage
        self.border(begin, graph)
        return True

    def leave(self, stage: Stage) -> None:
        """Leave the stage, if it is the current one."""
        if self.scope is not None and self.scope.stage == stage:
            self.scope = None

    def border(
        self, name: str, graph: ExportedProgram | torch.fx.GraphModule, *, seconds: float = 0.0
    ) -> None:
        """Record a snapshot at a border of the current stage, made by something that is no pass."""
        scope = self.scope
        if scope is None:
            return
        if isinstance(graph, ExportedProgram):
            scope.program = graph
        before = scope.stored
        changed = self._snapshot(scope, graph, "")
        self._emit(
            PassEvent(
                index=self.count,
                stage=scope.stage,
                name=name,
                method=scope.method,
                partition=scope.partition,
                before=before,
                after=scope.stored,
                changed=changed,
                seconds=seconds,
            )
        )

    def run_pass(
        self, name: str, call: Callable[[], Any], module: torch.fx.GraphModule, owner: object = None
    ) -> Any:
        """Run a pass on a graph module and record what it did.

        Args:
            name: of the pass.
            call: runs it.
            module: what it gets.
            owner: the pass itself, whose settings are kept if it fails.
        """
        scope = self.scope
        if scope is None or self._depth:
            return call()
        event = PassEvent(
            index=self.count,
            stage=scope.stage,
            name=name,
            method=scope.method,
            partition=scope.partition,
            before=scope.stored,
        )
        start = time.perf_counter()
        self._depth += 1
        try:
            result = call()
        except BaseException as error:
            self._emit(
                replace(
                    event,
                    error=f"{type(error).__name__}: {error}",
                    arguments=settings_of(owner),
                    seconds=time.perf_counter() - start,
                )
            )
            raise
        finally:
            self._depth -= 1
        seconds = time.perf_counter() - start
        after = getattr(result, "graph_module", None) or module
        changed = self._snapshot(scope, after, name)
        self._emit(
            replace(
                event,
                after=scope.stored,
                changed=changed,
                claimed_modified=getattr(result, "modified", None),
                seconds=seconds,
            )
        )
        return result

    def last_graph(self, program: ExportedProgram, method: str, partition: int) -> Graph:
        """The graph of a partition behind its last pass, with the QNN tensor names of its nodes."""
        lineage = self.lineage(method, partition)
        return graph_from_program(program, self.weights, lineage, stored_layout=True)

    def _snapshot(self, scope: Scope, graph: ExportedProgram | torch.fx.GraphModule, maker: str) -> bool:
        """Store the graph if it is new, and say whether it has another structure than the one before."""
        module = graph.graph_module if isinstance(graph, ExportedProgram) else graph
        lineage = self.lineage(scope.method, scope.partition)
        if scope.last is None and scope.stage in {"annotation", "quantized", "export"}:
            lineage.begin(module.graph)
        else:
            # The passes of the edge stage translate between dialects and invent nothing.
            lineage.update(module.graph, "" if scope.stage == "edge" else maker)
        taken = self._take(scope, module)
        last, scope.last = scope.last, taken
        if taken is last:
            return False
        # Told by their bytes, since in Python 1 and 1.0 are the same.
        before, scope.stored = scope.stored, self.writer.graph(taken)
        if last is None or before == scope.stored:
            return False
        structure = scope.structure or structure_digest(last)
        scope.structure = structure_digest(taken)
        return structure != scope.structure

    def lineage(self, method: str, partition: int | None) -> Lineage:
        """Where the nodes of a method come from; a partition's branches off when it is first asked for."""
        key = (method, partition)
        if key not in self.lineages:
            whole = self.lineages.get((method, None))
            self.lineages[key] = whole.fork() if whole is not None else Lineage()
        return self.lineages[key]

    def _take(self, scope: Scope, module: torch.fx.GraphModule) -> Graph:
        key = scope.method, scope.partition
        lineage, seen = self.lineage(*key), self.seen.setdefault(key, Seen())
        # An axis order is a stored layout only in preprocess, which drops it first and sets it anew.
        begun = scope.stage == "preprocess" and scope.last is not None
        stored = begun and any(QCOM_AXIS_ORDER in n.meta for n in module.graph.nodes)
        if scope.program is None:
            return graph_from_module(module, self.weights, lineage, stored_layout=stored, seen=seen)
        return graph_from_program(
            scope.program, self.weights, lineage, module=module, stored_layout=stored, seen=seen
        )

    def _emit(self, event: PassEvent) -> None:
        self.count += 1
        if event.error:
            self.failed = event
        self.writer.pass_event(event)
        self.on_event(event)

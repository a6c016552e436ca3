"""Hooks the lowering, so that a :class:`Recorder` sees every stage and pass of it.

Only functions and methods that all ways into the lowering look up at run time are wrapped: module
globals and class attributes. Nothing is hard-coded about which passes there are; every pass class
goes through ``torch.fx``'s ``PassBase.__call__``. Checked with executorch 1.4.1 and 1.5.1; a version
that lacks one of the hooks is refused instead of being recorded by half.
"""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import executorch.exir.program._program as exir_program
import torch
from executorch.backends.qualcomm._passes import qnn_pass_manager
from executorch.backends.qualcomm.qnn_preprocess import QnnBackend
from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_base import PassBase

from qnndbg.capture.qnn_graph import qnn_graph_from_wrappers
from qnndbg.capture.recorder import Recorder
from qnndbg.errors import LoweringError

Original = Callable[..., Any]


@dataclass(slots=True)
class Instrument:
    """What the hooks learn of a lowering."""

    recorder: Recorder
    edge_manager: Any = None
    """A copy of the edge program manager as it was just before ``to_backend``; weights are shared."""
    methods: dict[int, str] = field(default_factory=dict)
    """Identity of a program to its method, while a stage goes through several methods."""
    queue: list[str] = field(default_factory=list)
    """Methods whose edge program is still to be generated."""
    emitting: dict[str, ExportedProgram] = field(default_factory=dict)
    """The programs that ``to_executorch`` is at work on, by method."""
    partitions: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Identity of a partition's program to its method and number."""


@contextmanager
def instrumented(recorder: Recorder) -> Iterator[Instrument]:
    """Hook the lowering for the time of the block.

    Raises:
        LoweringError: this version of ExecuTorch does not have one of the hooks.
    """
    state = Instrument(recorder)
    with ExitStack() as stack:
        for owner, name, hook in _HOOKS:
            original = owner.__dict__.get(name)
            if original is None:
                raise LoweringError(
                    f"this executorch has no {owner.__name__}.{name}, which qnndbg hooks",
                    "install a version that qnndbg knows: pip install executorch==1.5.1",
                )
            stack.enter_context(patch.object(owner, name, _wrapped(original, hook, state)))
        yield state


def _wrapped(original: Any, hook: Callable[..., Any], state: Instrument) -> Any:
    """The hook in place of the original, of the same kind (function, method or static method)."""
    function: Original = original.__func__ if isinstance(original, staticmethod) else original

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return hook(state, function, *args, **kwargs)

    return staticmethod(wrapper) if isinstance(original, staticmethod) else wrapper


def _on_pass(state: Instrument, original: Original, self: Any, module: torch.fx.GraphModule) -> Any:
    return state.recorder.run_pass(type(self).__name__, lambda: original(self, module), module)


def _on_annotation(
    state: Instrument, original: Original, self: Any, graph_module: torch.fx.GraphModule
) -> Any:
    with state.recorder.stage("annotation", graph_module):
        return original(self, graph_module)


def _on_export(state: Instrument, original: Original, self: Any, exported_program: ExportedProgram) -> Any:
    with state.recorder.stage("export", exported_program, method=_next(state)):
        return original(self, exported_program)


def _on_transform_only(
    state: Instrument,
    original: Original,
    self: Any,
    exported_program: ExportedProgram,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """The to-edge pipeline as the deprecated ``capture_program`` calls it."""
    with state.recorder.stage("transform", exported_program):
        return original(self, exported_program, *args, **kwargs)


def _on_lift(state: Instrument, original: Original, ep: ExportedProgram) -> Any:
    start = time.perf_counter()
    lifted = original(ep)
    if state.recorder.scope is not None and state.recorder.scope.stage in {"export", "transform"}:
        state.recorder.border("lift_constant_tensor_pass", lifted, seconds=time.perf_counter() - start)
    return lifted


def _on_edge_manager(
    state: Instrument, original: Original, partitioner: Any, aten_programs: Any, *args: Any, **kwargs: Any
) -> Any:
    state.queue = list(aten_programs)
    return original(partitioner, aten_programs, *args, **kwargs)


def _on_edge(
    state: Instrument, original: Original, config: Any, program: ExportedProgram, *args: Any, **kwargs: Any
) -> Any:
    with state.recorder.stage("edge", program, method=_next(state)):
        edge = original(config, program, *args, **kwargs)
        state.recorder.border("to_edge", edge)
        return edge


def _on_transform_all(state: Instrument, original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    state.methods = {id(program): name for name, program in self._edge_programs.items()}
    try:
        return original(self, *args, **kwargs)
    finally:
        state.methods = {}


def _on_transform(
    state: Instrument, original: Original, program: ExportedProgram, *passes: Any, **kwargs: Any
) -> Any:
    method = state.methods.get(id(program))
    if method is None:
        return original(program, *passes, **kwargs)
    with state.recorder.stage("transform", program, method=method):
        return original(program, *passes, **kwargs)


def _on_to_backend(state: Instrument, original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    recorder = state.recorder
    if not recorder.passes:
        return original(self, *args, **kwargs)
    for method, program in self._edge_programs.items():
        with recorder.stage("partition", program, method=method):
            pass
    state.edge_manager = _shared_copy(self)
    lowered = original(self, *args, **kwargs)
    for method, program in lowered._edge_programs.items():
        with recorder.stage("partition", program, method=method):
            pass
    return lowered


def _on_preprocess_all(state: Instrument, original: Original, edge_programs: Any, compile_specs: Any) -> Any:
    state.partitions = {
        id(program): (method, number)
        for method, programs in edge_programs.items()
        for number, program in enumerate(programs)
    }
    return original(edge_programs, compile_specs)


def _on_build(
    state: Instrument, original: Original, edge_program: ExportedProgram, *args: Any, **kwargs: Any
) -> Any:
    recorder = state.recorder
    method, partition = state.partitions.get(id(edge_program), ("forward", len(state.partitions)))
    with recorder.stage("preprocess", edge_program, method=method, partition=partition):
        wrappers = original(edge_program, *args, **kwargs)
    graph = recorder.last_graph(edge_program, method, partition)
    digest = recorder.writer.graph(graph)
    if not isinstance(wrappers, bytes):
        recorder.writer.qnn_graph(qnn_graph_from_wrappers(wrappers, graph, digest, method, partition))
    return wrappers


def _on_to_executorch(state: Instrument, original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    state.emitting = self._edge_programs
    try:
        return original(self, *args, **kwargs)
    finally:
        state.emitting = {}
        state.recorder.leave("executorch")


def _on_executorch_passes(
    state: Instrument, original: Original, config: Any, name: str | None = None, **kwargs: Any
) -> Any:
    """Asked once per method for the passes that then run on it."""
    if name in state.emitting:
        state.recorder.leave("executorch")
        state.recorder.enter("executorch", state.emitting[name], method=name)
    return original(config, name, **kwargs)


def _next(state: Instrument) -> str:
    return state.queue.pop(0) if state.queue else "forward"


def _shared_copy(manager: Any) -> Any:
    """A deep copy of an edge program manager that shares every weight with it."""
    memo = {}
    for program in manager._edge_programs.values():
        for tensor in (*program.state_dict.values(), *program.constants.values()):
            memo[id(tensor)] = tensor
    return copy.deepcopy(manager, memo)


_MANAGER = qnn_pass_manager.QnnPassManager
_HOOKS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (PassBase, "__call__", _on_pass),
    (_MANAGER, "transform_for_annotation_pipeline", _on_annotation),
    (_MANAGER, "transform_for_export_pipeline", _on_export),
    (_MANAGER, "transform_for_to_edge_pipeline", _on_transform_only),
    (qnn_pass_manager, "lift_constant_tensor_pass", _on_lift),
    (exir_program, "_gen_edge_manager_for_partitioners", _on_edge_manager),
    (exir_program, "_generate_edge_program", _on_edge),
    (exir_program.EdgeProgramManager, "transform", _on_transform_all),
    (exir_program, "_transform", _on_transform),
    (exir_program.EdgeProgramManager, "to_backend", _on_to_backend),
    (exir_program.EdgeProgramManager, "to_executorch", _on_to_executorch),
    (exir_program, "edge_to_executorch_passes", _on_executorch_passes),
    (QnnBackend, "preprocess_multimethod", _on_preprocess_all),
    (QnnBackend, "_build_op_wrappers", _on_build),
)

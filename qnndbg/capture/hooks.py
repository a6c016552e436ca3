"""What is done at each hook: tell the recorder the stage, and note what the second build needs.

Every hook gets the session, what it replaces and the arguments of the call; it returns what the original
returns and changes nothing of what that does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from executorch.backends.qualcomm.partition.qnn_partitioner import QnnPartitioner
from msgspec.structs import replace
from torch.export import ExportedProgram

from qnndbg.capture.fallback import delegation_of, judged
from qnndbg.capture.held import Payloads, folded_constants, held_from_payload, payloads_seen
from qnndbg.capture.lowering import shared_copy
from qnndbg.capture.precision import precision_of
from qnndbg.capture.qnn_graph import qnn_graph_from_wrappers
from qnndbg.capture.session import Session
from qnndbg.model.graph import Graph
from qnndbg.model.recording import QnnGraph
from qnndbg.recording.writer import Writer

Original = Callable[..., Any]


def on_pass(session: Session, original: Original, self: Any, module: torch.fx.GraphModule) -> Any:
    """A pass of any pipeline."""
    return session.active.run_pass(type(self).__name__, lambda: original(self, module), module, self)


def on_annotation(
    session: Session,
    original: Original,
    self: Any,
    graph_module: torch.fx.GraphModule,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """The pipeline inside ``prepare_pt2e``."""
    session.start()
    with session.recorder.stage("annotation", graph_module):
        return original(self, graph_module, *args, **kwargs)


def on_convert(
    session: Session, original: Original, model: torch.fx.GraphModule, *args: Any, **kwargs: Any
) -> Any:
    """``convert_pt2e``, where its caller looks it up in its module; else ``export`` begins with it."""
    converted = original(model, *args, **kwargs)
    with session.recorder.stage("quantized", converted, begin="convert_pt2e"):
        pass
    return converted


def on_export(
    session: Session,
    original: Original,
    self: Any,
    exported_program: ExportedProgram,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """The pipeline behind ``torch.export``; here the example inputs of the method are seen."""
    method, specs = _caller()
    session.start(method)
    _note_known(session, method, exported_program, specs)
    with session.recorder.stage("export", exported_program, method=method):
        return original(self, exported_program, *args, **kwargs)


def on_transform_pipeline(
    session: Session,
    original: Original,
    self: Any,
    exported_program: ExportedProgram,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """The to-edge pipeline where it is called as a whole, passes in a plain loop."""
    with session.recorder.stage("transform", exported_program):
        return original(self, exported_program, *args, **kwargs)


def on_lift(session: Session, original: Original, ep: ExportedProgram) -> Any:
    """A plain function among passes; it works on the program in place."""
    start = time.perf_counter()
    lifted = original(ep)
    seconds = time.perf_counter() - start
    scope = session.recorder.scope
    if scope is not None and scope.stage in {"export", "transform"}:
        session.recorder.border("lift_constant_tensor_pass", lifted, seconds=seconds)
    return lifted


def on_edge_manager(
    session: Session, original: Original, partitioner: Any, aten_programs: Any, *args: Any, **kwargs: Any
) -> Any:
    """Decomposition of all methods, in the order of their names here."""
    session.queue = list(aten_programs)
    if any(isinstance(p, QnnPartitioner) for found in partitioner.values() for p in found):
        for method, program in aten_programs.items():
            _note_known(session, method, program, _specs_of(partitioner.get(method, ())))
    return original(partitioner, aten_programs, *args, **kwargs)


def on_edge(
    session: Session, original: Original, config: Any, program: ExportedProgram, *args: Any, **kwargs: Any
) -> Any:
    """From ATen to the edge dialect, one method."""
    method = session.queue.pop(0) if session.queue else "forward"
    with session.recorder.stage("edge", program, method=method):
        edge = original(config, program, *args, **kwargs)
        session.recorder.border("to_edge", edge)
        return edge


def on_to_edge(session: Session, original: Original, ep: Any, config: Any) -> Any:
    """From ATen to the edge dialect, as the deprecated ``capture_program`` calls it."""
    with session.recorder.stage("edge", ep.exported_program):
        edge = original(ep, config)
        session.recorder.border("to_edge", edge.exported_program)
        return edge


def on_transform_manager(session: Session, original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    """The to-edge passes of all methods."""
    session.methods = {id(program): name for name, program in self._edge_programs.items()}
    try:
        return original(self, *args, **kwargs)
    finally:
        session.methods = {}


def on_transform_exir(session: Session, original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    """The to-edge passes, as the deprecated ``capture_program`` calls them."""
    session.methods = {id(self.exported_program): "forward"}
    try:
        return original(self, *args, **kwargs)
    finally:
        session.methods = {}


def on_transform(
    session: Session, original: Original, program: ExportedProgram, *passes: Any, **kwargs: Any
) -> Any:
    """The to-edge passes of one method; other callers do their own passes within a stage."""
    method = session.method_of(program)
    if method is None:
        return original(program, *passes, **kwargs)
    with session.recorder.stage("transform", program, method=method):
        return original(program, *passes, **kwargs)


def on_to_backend_program(
    session: Session, original: Original, edge_program: ExportedProgram, partitioner: Any
) -> Any:
    """Delegation of one program."""
    lowered = _delegated(
        session,
        {"forward": edge_program},
        {"forward": partitioner},
        lambda: {"forward": original(edge_program, partitioner)},
    )
    return lowered["forward"]


def on_to_backend_methods(session: Session, original: Original, spec: Any) -> Any:
    """Delegation of all methods at once."""
    return _delegated(
        session, spec.method_to_edge_program, spec.method_to_partitioner, lambda: original(spec)
    )


def _delegated(session: Session, programs: Any, partitioners: Any, call: Callable[[], Any]) -> Any:
    recorder, lowering = session.recorder, session.lowering
    if not all(isinstance(p, QnnPartitioner) for p in partitioners.values()):
        return call()
    for method, program in programs.items():
        with recorder.stage("partition", program, method=method):
            lowering.edge_programs[method] = shared_copy(program)
    lowering.partitioners = dict(partitioners)
    session.on_known(lowering)
    lowered = call()
    for method, program in lowered.items():
        with recorder.stage("partition", program, method=method, begin="to_backend"):
            lowering.delegations[method] = delegation_of(program, method, lowering.refused)
    lowering.edge_manager = lowered
    return lowered


def on_sanity_check(session: Session, original: Original, *args: Any, **kwargs: Any) -> Any:
    """ExecuTorch looks at a program before or behind delegation, and may refuse it."""
    try:
        return original(*args, **kwargs)
    except RuntimeError as error:
        session.lowering.rejected = str(error).partition("\n")[0]
        raise


def on_support(session: Session, original: Original, self: Any, submodules: Any, node: torch.fx.Node) -> bool:
    """The partitioner asks whether the HTP takes an op."""
    supported, fallback = judged(lambda: bool(original(self, submodules, node)), self, node)
    if fallback is not None:
        session.lowering.refused.append(fallback)
    return supported


def on_preprocess_multimethod(
    session: Session, original: Original, edge_programs: Any, compile_specs: Any
) -> Any:
    """The partitions of all methods, with their numbers."""
    session.partitions = {
        id(program): (method, number)
        for method, programs in edge_programs.items()
        for number, program in enumerate(programs)
    }
    return original(edge_programs, compile_specs)


def on_preprocess(
    session: Session, original: Original, edge_program: ExportedProgram, compile_specs: Any
) -> Any:
    """One partition on its own, in the order of their numbers."""
    session.partitions[id(edge_program)] = ("forward", len(session.partitions))
    return original(edge_program, compile_specs)


def on_build(
    session: Session, original: Original, edge_program: ExportedProgram, *args: Any, **kwargs: Any
) -> Any:
    """The passes of preprocess and the QNN graph of one partition."""
    method, partition = session.partitions.get(id(edge_program), ("forward", 0))
    if session.tapped is not None:
        recorder = session.tapped.recorder
        with payloads_seen() as payloads:
            wrappers = original(edge_program, *args, **kwargs)
    else:
        payloads = None
        recorder = session.recorder
        with recorder.stage("preprocess", edge_program, method=method, partition=partition):
            wrappers = original(edge_program, *args, **kwargs)
    if not isinstance(wrappers, bytes):  # a context binary that somebody else compiled has no graph
        graph = recorder.last_graph(edge_program, method, partition)
        digest = recorder.writer.graph(graph)
        found = qnn_graph_from_wrappers(wrappers, graph, digest, method, partition)
        recorder.writer.qnn_graph(_with_held(found, graph, payloads, recorder.writer))
    return wrappers


def _with_held(found: QnnGraph, graph: Graph, payloads: Payloads | None, writer: Writer) -> QnnGraph:
    """The QNN graph with what its static tensors hold, where that was seen."""
    if payloads is None:
        return found
    nodes = {node.name: node for node in graph.nodes if node.constant is not None}
    folded = folded_constants(graph)
    tensors = []
    for tensor in found.tensors:
        if tensor.kind == "static" and tensor.node in nodes:
            held = folded.get(tensor.node)
            held = held or held_from_payload(payloads.get(tensor.name), nodes[tensor.node], writer)
            tensor = replace(tensor, held=held)
        tensors.append(tensor)
    return replace(found, tensors=tuple(tensors))


def on_to_executorch(session: Session, original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    """The passes of ``to_executorch``, and the program itself."""
    return _emitted(session, dict(self._edge_programs), lambda: original(self, *args, **kwargs))


def on_to_executorch_exir(session: Session, original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    """The same behind the deprecated ``capture_program``."""
    return _emitted(session, {"forward": self.exported_program}, lambda: original(self, *args, **kwargs))


def _emitted(session: Session, programs: dict[str, ExportedProgram], call: Callable[[], Any]) -> Any:
    lowering = next((one for one in session.lowerings if one.owns(programs.values())), None)
    if lowering is None:
        return call()
    session.emitting = {method: (lowering.recorder, program) for method, program in programs.items()}
    try:
        lowering.emitted = call()
    finally:
        session.emitting = {}
        lowering.recorder.leave("executorch")
    return lowering.emitted


def on_executorch_passes(
    session: Session, original: Original, config: Any, name: str | None = None, **kwargs: Any
) -> Any:
    """Asked once per method for the passes that then run on it."""
    method = name or "forward"
    if method in session.emitting:
        recorder, program = session.emitting[method]
        recorder.leave("executorch")
        recorder.enter("executorch", program, method=method)
    return original(config, **kwargs) if name is None else original(config, name, **kwargs)


def _note_known(session: Session, method: str, program: ExportedProgram, specs: Any) -> None:
    lowering = session.lowering
    if program.example_inputs is not None:
        lowering.inputs.setdefault(method, tuple(program.example_inputs[0]))
    if lowering.specs is None and specs:
        lowering.specs = list(specs)
        lowering.precision = precision_of([program], lowering.options)
    session.on_known(lowering)


def _specs_of(partitioners: Any) -> Any:
    found = [p.compiler_specs_snapshot for p in partitioners if isinstance(p, QnnPartitioner)]
    return found[0] if found else None


def _caller() -> tuple[str, Any]:
    """The method that is being lowered, and its compile specs.

    The pipeline is told neither, which only the loop of ``to_edge_transform_and_lower_to_qnn`` knows.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "to_edge_transform_and_lower_to_qnn":
            method = str(frame.f_locals.get("graph_name", "forward"))
            specs = frame.f_locals.get("compiler_specs")
            return method, specs.get(method) if isinstance(specs, dict) else specs
        frame = frame.f_back  # type: ignore[assignment]
    return "forward", None


BEGINNERS = frozenset(
    {
        on_annotation,
        on_export,
        on_transform_pipeline,
        on_edge_manager,
        on_to_backend_program,
        on_to_backend_methods,
    }
)
"""Hooks that see a lowering to QNN begin; before that, the others are no business of ours."""
OF_TAPPED = frozenset({on_preprocess, on_preprocess_multimethod, on_build})
"""Hooks that are at work during the second build."""

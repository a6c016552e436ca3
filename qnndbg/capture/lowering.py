"""What the hooks learn of one lowering, and how the same edge program is built once more with the dump."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from executorch.backends.qualcomm.partition.qnn_partitioner import QnnPartitioner
from executorch.backends.qualcomm.serialization.qc_schema_serialize import (
    flatbuffer_to_option,
    option_to_flatbuffer,
)
from executorch.backends.qualcomm.utils.constants import QCOM_QNN_COMPILE_SPEC
from executorch.backends.qualcomm.utils.qnn_manager_lifecycle import QnnManagerContext
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.capture import EdgeCompileConfig
from executorch.exir.program._program import EdgeProgramManager
from torch.export import ExportedProgram
from torch.export.graph_signature import TensorArgument

from qnndbg.capture.fallback import Delegation
from qnndbg.capture.recorder import Recorder
from qnndbg.model.recording import Fallback


@dataclass(slots=True)
class Lowering:
    """One lowering, of one method or of several."""

    recorder: Recorder
    inputs: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Method to the example inputs with which it was exported."""
    specs: list[CompileSpec] | None = None
    """Compile specs of the first method; None as long as nobody said them."""
    precision: str = ""
    """As the exported program of the first method has it; empty if it was not looked at."""
    edge_programs: dict[str, ExportedProgram] = field(default_factory=dict)
    """Method to a copy, with shared weights, of its edge program just before ``to_backend``."""
    partitioners: dict[str, QnnPartitioner] = field(default_factory=dict)
    refused: list[Fallback] = field(default_factory=list)
    """Ops that the partitioner did not take."""
    delegations: dict[str, Delegation] = field(default_factory=dict)
    """Method to what became of it."""
    rejected: str = ""
    """Why ExecuTorch would not have what was delegated; then its caller got no program."""
    emitted: Any = None
    """What ``to_executorch`` returned; None if it was not called."""
    edge_manager: dict[str, ExportedProgram] | None = None
    """Method to what ``to_backend`` made of it, with its delegates."""

    def owns(self, programs: Iterable[ExportedProgram]) -> bool:
        """Whether any of the programs came out of this lowering."""
        ours = {id(program) for program in (self.edge_manager or {}).values()}
        return any(id(program) in ours for program in programs)

    @property
    def options(self) -> Any:
        """The backend's options of the first method; None if they are not known yet."""
        for partitioner in self.partitioners.values():
            return flatbuffer_to_option(partitioner.compiler_specs_snapshot[0].value)
        return None if not self.specs else flatbuffer_to_option(self.specs[0].value)

    @property
    def op_packages(self) -> tuple[str, ...]:
        """Names of the custom op packages that the backend was given."""
        options = self.options
        packages = [] if options is None else options.op_package_options.op_package_infos
        return tuple(f"{info.op_package_name} ({info.custom_op_name})" for info in packages)

    @property
    def shares_weights(self) -> bool:
        """Whether several methods hold their weights together."""
        options = self.options
        return options is not None and bool(
            options.backend_options.htp_options.use_weight_sharing and len(self.edge_programs) > 1
        )

    def program(self) -> bytes:
        """The program that the lowering made; it is emitted here if its maker did not do so."""
        if self.emitted is None and self.edge_manager is not None:
            # Of copies: it works in place, and the caller may still do it.
            copies = {method: shared_copy(program) for method, program in self.edge_manager.items()}
            self.emitted = _manager(copies).to_executorch()
        return bytes(self.emitted.buffer)

    def tapped_program(self, method: str) -> bytes:
        """Build one method again, with every intermediate output dumped.

        Each method on its own, since the backend refuses to dump several at once.
        """
        specs = _tapped(self.partitioners[method].compiler_specs_snapshot)
        with QnnManagerContext({method: specs}):
            manager = _manager({method: _with_tensor_outputs(self.edge_programs[method])})
            lowered = manager.to_backend({method: _partitioner(self.partitioners[method], specs)})
        return bytes(lowered.to_executorch().buffer)


def shared_copy(program: ExportedProgram) -> ExportedProgram:
    """A deep copy that shares every weight with the program."""
    memo = {
        id(t): t
        for t in (*program.state_dict.values(), *program.constants.values())
        if isinstance(t, torch.Tensor)
    }
    return copy.deepcopy(program, memo)


def _with_tensor_outputs(program: ExportedProgram) -> ExportedProgram:
    """The program without outputs that are no tensors, which abort a runtime that dumps."""
    specs = program.graph_signature.output_specs
    kept = [i for i, spec in enumerate(specs) if isinstance(spec.arg, TensorArgument)]
    if len(kept) == len(specs):
        return program
    copied = shared_copy(program)
    output = copied.graph.output_node()
    output.args = (tuple(output.args[0][i] for i in kept),)
    copied.graph_module.recompile()
    signature = copied.graph_signature
    copied._graph_signature = replace(signature, output_specs=[signature.output_specs[i] for i in kept])
    return copied


def _manager(programs: dict[str, ExportedProgram]) -> EdgeProgramManager:
    """As ``to_backend`` makes it: the ops that the backend kept whole are none of the edge dialect's."""
    return EdgeProgramManager(programs, compile_config=EdgeCompileConfig(_check_ir_validity=False))


def _partitioner(original: QnnPartitioner, specs: list[CompileSpec]) -> QnnPartitioner:
    return QnnPartitioner(
        specs,
        skip_node_id_set=original.skip_node_id_set,
        skip_node_op_set=original.skip_node_op_set,
        skip_mutable_buffer=original.skip_mutable_buffer,
    )


def _tapped(specs: list[CompileSpec]) -> list[CompileSpec]:
    options = flatbuffer_to_option(specs[0].value)
    options.dump_intermediate_outputs = True
    return [CompileSpec(QCOM_QNN_COMPILE_SPEC, option_to_flatbuffer(options))]

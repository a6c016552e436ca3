"""Puts hooks into the lowering, so that a :class:`Session` sees every stage and pass of it.

Only what all ways into the lowering look up at run time is wrapped: module globals, class attributes and
the dispatch table of ``to_backend``. So code that imported its names before is seen too. Nothing is
hard-coded about which passes there are. Checked with executorch 1.4.1 and 1.5.1; a version that lacks a
hook is refused instead of being recorded by half.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import get_ident
from typing import Any
from unittest.mock import patch

import executorch.exir.program._program as exir_program
from executorch.backends.qualcomm._passes import qnn_pass_manager
from executorch.backends.qualcomm.partition.qnn_partitioner import QnnOperatorSupport
from executorch.backends.qualcomm.qnn_preprocess import QnnBackend
from executorch.exir.backend import backend_api
from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_base import PassBase
from torchao.quantization.pt2e import quantize_pt2e

from qnndbg.capture import hooks
from qnndbg.capture.session import Session
from qnndbg.errors import LoweringError, UsageError

_MANAGER = qnn_pass_manager.QnnPassManager
_HOOKS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (PassBase, "__call__", hooks.on_pass),
    (_MANAGER, "transform_for_annotation_pipeline", hooks.on_annotation),
    (quantize_pt2e, "convert_pt2e", hooks.on_convert),
    (_MANAGER, "transform_for_export_pipeline", hooks.on_export),
    (_MANAGER, "transform_for_to_edge_pipeline", hooks.on_transform_pipeline),
    (qnn_pass_manager, "lift_constant_tensor_pass", hooks.on_lift),
    (exir_program, "lift_constant_tensor_pass", hooks.on_lift),
    (exir_program, "_gen_edge_manager_for_partitioners", hooks.on_edge_manager),
    (exir_program, "_generate_edge_program", hooks.on_edge),
    (exir_program, "_sanity_check_graph_for_non_decomp_ops", hooks.on_sanity_check),
    (exir_program, "_to_edge", hooks.on_to_edge),
    (exir_program.EdgeProgramManager, "transform", hooks.on_transform_manager),
    (exir_program.ExirExportedProgram, "transform", hooks.on_transform_exir),
    (exir_program, "_transform", hooks.on_transform),
    (exir_program.EdgeProgramManager, "to_executorch", hooks.on_to_executorch),
    (exir_program.ExirExportedProgram, "to_executorch", hooks.on_to_executorch_exir),
    (exir_program, "edge_to_executorch_passes", hooks.on_executorch_passes),
    (QnnOperatorSupport, "is_node_supported", hooks.on_support),
    (QnnBackend, "preprocess_multimethod", hooks.on_preprocess_multimethod),
    (QnnBackend, "preprocess", hooks.on_preprocess),
    (QnnBackend, "_build_op_wrappers", hooks.on_build),
)
_DISPATCHED = (
    (ExportedProgram, hooks.on_to_backend_program),
    (backend_api.MethodProgramsPartitionerSpec, hooks.on_to_backend_methods),
)


@contextmanager
def instrumented(session: Session) -> Iterator[None]:
    """Hook the lowering for the time of the block.

    Raises:
        LoweringError: this version of ExecuTorch does not have one of the hooks.
        UsageError: another thread is recording. Blocks that end in another order than the reverse of that in
            which they began would take each other's hooks away.
    """
    if getattr(PassBase.__call__, "thread", get_ident()) != get_ident():
        raise UsageError(
            "another thread of this process is recording", "let one block end before the next begins"
        )
    with ExitStack() as stack:
        for owner, name, hook in _HOOKS:
            original = owner.__dict__.get(name)
            if original is None:
                raise _unknown_layout(f"{owner.__name__}.{name}")
            stack.enter_context(patch.object(owner, name, _wrapped(original, hook, session)))
        for kind, hook in _DISPATCHED:
            stack.enter_context(_redispatched(kind, hook, session))
        yield


@contextmanager
def _redispatched(kind: type, hook: Callable[..., Any], session: Session) -> Iterator[None]:
    """Put a hook into the dispatch table of ``to_backend``, which every holder of its name goes through."""
    original = backend_api.to_backend.registry.get(kind)
    if original is None:
        raise _unknown_layout(f"to_backend({kind.__name__})")
    backend_api.to_backend.register(kind, _wrapped(original, hook, session))
    try:
        yield
    finally:
        backend_api.to_backend.register(kind, original)


def _wrapped(original: Any, hook: Callable[..., Any], session: Session) -> Any:
    """The hook in place of the original, of the same kind (function, method or static method)."""
    function = original.__func__ if isinstance(original, staticmethod) else original

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not _concerns(hook, session):
            return function(*args, **kwargs)
        return hook(session, function, *args, **kwargs)

    wrapper.thread = get_ident()  # type: ignore[attr-defined]
    return staticmethod(wrapper) if isinstance(original, staticmethod) else wrapper


def _concerns(hook: Callable[..., Any], session: Session) -> bool:
    if session.process != os.getpid():
        return False
    if session.tapped is not None:
        return hook in hooks.OF_TAPPED
    return bool(session.lowerings) or hook in hooks.BEGINNERS


def _unknown_layout(what: str) -> LoweringError:
    return LoweringError(
        f"this executorch has no {what}, which qnndbg hooks",
        "install a version that qnndbg knows: pip install executorch==1.5.1",
    )

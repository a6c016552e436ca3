"""qnndbg: a differential graph debugger for PyTorch models lowered to Qualcomm's HTP.

What needs torch, ExecuTorch or the QNN libraries writes a recording; what a person or CI looks at
reads only recordings::

    script / model ──capture──► RECORDING ──execute──► RECORDING + runs ──align──► pairs ──compare──► layers
                    (passes,    (graphs,    (CPU references,                                            │
                     QNN graph)  passes,     HTP)                                          attribute ▼
                                 tensors)                                                findings, verdict
                                                 report · tui · gate  ◄──────────────────────────┘
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qnndbg.analyze.diff.recordings import diff
    from qnndbg.model.target import Evaluation, Target
    from qnndbg.pipeline.live import record
    from qnndbg.recording.store import open_recording
    from qnndbg.report.tables import open

__all__ = ["Evaluation", "Target", "__version__", "diff", "open", "open_recording", "record"]

__version__ = "0.1.0"

_PUBLIC = {
    "Evaluation": "qnndbg.model.target",
    "Target": "qnndbg.model.target",
    "diff": "qnndbg.analyze.diff.recordings",
    "open": "qnndbg.report.tables",
    "open_recording": "qnndbg.recording.store",
    "record": "qnndbg.pipeline.live",
}
_OF_RECORDING = frozenset({"torch", "torchao", "executorch"})
"""Packages that only the extra installs."""


def __getattr__(name: str) -> Any:
    """Public names, loaded when they are first asked for: viewing must not load torch."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        module = import_module(_PUBLIC[name])
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_RECORDING:
            raise
        from qnndbg.errors import SdkError

        hint = f'{name} needs what recording needs: pip install "qnndbg[qnn]"'
        raise SdkError(f"{error.name} is not installed", hint) from error
    return getattr(module, name)

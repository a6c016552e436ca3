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

from qnndbg.model.target import Evaluation, Target

__all__ = ["Evaluation", "Target"]

__version__ = "0.1.0"

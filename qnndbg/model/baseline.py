"""A recording without tensors, small enough to be committed: what a baseline holds.

Its snapshots are told apart by structure digests; only few graphs are kept. An event's ``after`` names a kept
graph as ``DIGEST/PLACE``, any other snapshot as ``DIGEST``.
"""

from __future__ import annotations

from msgspec import Struct

from qnndbg.model.graph import Graph
from qnndbg.model.recording import Manifest, PassEvent, QnnGraph, Run
from qnndbg.model.result import Comparison

BASELINE_SCHEMA_VERSION = 1
"""Also that of the structure digests: other digests cannot be compared."""


class BaselineData(Struct, frozen=True, kw_only=True):
    """All that a baseline holds."""

    manifest: Manifest
    sizes: dict[str, int]
    """Program to its bytes."""
    passes: tuple[PassEvent, ...]
    """Without their times."""
    graphs: dict[str, Graph]
    """``DIGEST/PLACE`` to graph, the place being ``exported.method``, ``transform.method``
    or ``qnn.method.partition``."""
    qnn: tuple[QnnGraph, ...]
    runs: tuple[Run, ...]
    """Without intermediate values."""
    comparison: Comparison

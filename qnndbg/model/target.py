"""What a factory returns: the module to record and the data that it is recorded with.

A plain dataclass, unlike the rest of ``model``: it holds live torch objects and is never stored.
Torch is named in annotations only, so that importing this module does not load it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Labelled samples; the prediction is the argmax over the last axis of output 0.

    Kept apart from the calibration data, so that an accuracy measured on it is held out.
    """

    inputs: Sequence[tuple[object, ...]]
    """One tuple of model inputs per sample, each shaped as the example inputs are."""
    labels: Sequence[int]
    """The right class of each sample."""


@dataclass(frozen=True, slots=True)
class Target:
    """A model in eval mode, with all that a recording of it needs."""

    module: torch.nn.Module
    inputs: tuple[object, ...]
    """The example inputs with which it is exported, run and compared."""
    calibration: Sequence[tuple[object, ...]] = ()
    """Inputs that the quantiser observes; empty means ``inputs``."""
    evaluation: Evaluation | None = None
    """Samples for an accuracy per runner; None if the model predicts no class."""
    quantizer: Callable[[torch.fx.GraphModule], object] | None = None
    """Makes the quantiser for the exported module; None means the backend's with its defaults."""
    qat: bool = False
    """Prepare for quantisation-aware training instead of after it; the quantiser must be set up for it."""
    dynamic_shapes: object = None
    """Dynamic dimensions of the inputs, as ``torch.export.export`` takes them."""
    lowering: Mapping[str, object] = field(default_factory=dict)
    """Further arguments of ``to_edge_transform_and_lower_to_qnn``, such as ``skip_node_op_set``."""

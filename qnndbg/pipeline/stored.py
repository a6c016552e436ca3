"""Reads stored tensors back as torch has them."""

from __future__ import annotations

import torch

from qnndbg.capture.tensors import tensor_from_array
from qnndbg.model.graph import TensorRef
from qnndbg.recording.store import Recording


def tensor_from(recording: Recording, ref: TensorRef) -> torch.Tensor:
    """A stored tensor as torch has it; a copy, since a recording is never written to."""
    return tensor_from_array(recording.tensor(ref), ref.dtype)

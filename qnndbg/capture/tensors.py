"""Between torch tensors and the arrays that a recording stores."""

from __future__ import annotations

from typing import Any

import torch

BITS = {"bfloat16": torch.uint16, "float8_e4m3fn": torch.uint8, "float8_e5m2": torch.uint8}
"""Dtypes that numpy lacks, and the one that carries their bits."""


def array_from_tensor(tensor: torch.Tensor) -> tuple[Any, str]:
    """The tensor as a numpy array that shares its memory where it can, and its torch dtype."""
    data = tensor.detach().cpu().contiguous()
    name = str(data.dtype).removeprefix("torch.")
    return (data.view(BITS[name]) if name in BITS else data.resolve_conj().resolve_neg()).numpy(), name


def state_of_tensor(tensor: torch.Tensor) -> tuple[object, ...]:
    """What differs once a tensor has got other bytes, as far as torch itself can know.

    A tensor made for inference counts no versions, since nothing may write to it in place.
    """
    version = 0 if tensor.is_inference() else tensor._version
    address = 0 if isinstance(tensor, torch._subclasses.FakeTensor) else tensor.data_ptr()
    return version, address, tensor.dtype, tensor.shape, tensor.stride()


def tensor_from_array(array: Any, dtype: str) -> torch.Tensor:
    """A copy of a stored array as the torch tensor that it was."""
    tensor = torch.from_numpy(array.copy())
    return tensor.view(getattr(torch, dtype)) if dtype in BITS else tensor

"""Calls a module without leaving a trace in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from qnndbg.errors import LoweringError


def flatten(inputs: object) -> list[Any]:
    """The leaves of nested inputs or outputs, in the order in which a lowered program has them."""
    return list(torch.utils._pytree.tree_leaves(inputs))


def call(module: torch.nn.Module, inputs: Sequence[object]) -> list[Any]:
    """The flattened outputs of a module; its buffers and the inputs stay as they were."""
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    copies = torch.utils._pytree.tree_map(
        lambda v: v.clone() if isinstance(v, torch.Tensor) else v, tuple(inputs)
    )
    with torch.no_grad():
        outputs = [o.clone() if isinstance(o, torch.Tensor) else o for o in flatten(module(*copies))]
        for name, buffer in module.named_buffers():
            buffer.copy_(buffers[name])
    return outputs


def calibrate(
    prepared: torch.nn.Module, samples: Sequence[tuple[object, ...]], example: Sequence[object]
) -> None:
    """Show the samples to the observers; states of the model itself start anew with each.

    Args:
        prepared: what ``prepare_pt2e`` returned.
        samples: the inputs of each.
        example: the inputs with which the module was exported.

    Raises:
        LoweringError: the module cannot be run with a sample.
    """
    states = {n: b.clone() for n, b in prepared.named_buffers() if "activation_post_process" not in n}
    with torch.no_grad():
        for number, sample in enumerate(samples):
            try:
                prepared(*sample)
            except Exception as error:
                given, wanted = kinds(sample), kinds(example)
                raise LoweringError(
                    f"calibration sample {number} cannot be run: {first_line(error)}",
                    f"it is {given}; make it what the example inputs are: {wanted}"
                    if given != wanted
                    else "",
                ) from error
            for name, buffer in prepared.named_buffers():
                if name in states:
                    buffer.copy_(states[name])


def kinds(inputs: object) -> str:
    """Dtype and shape of each tensor, as in ``float32 (1, 3, 8, 8), int64 (1,)``, and all else itself."""
    return ", ".join(
        f"{str(leaf.dtype).removeprefix('torch.')} {tuple(leaf.shape)}"
        if isinstance(leaf, torch.Tensor)
        else repr(leaf)  # which export fixes
        for leaf in flatten(inputs)
    )


def count_correct(outputs: Sequence[Any], labels: Sequence[int]) -> int:
    """How many outputs have their largest value at the label; the class axis is the last one."""
    return sum(
        int(output.reshape(-1).argmax()) == label for output, label in zip(outputs, labels, strict=True)
    )


def contiguous(inputs: Sequence[object]) -> tuple[tuple[object, ...], dict[int, str]]:
    """Inputs with every tensor contiguous, and the number and note of each that was not.

    The HTP reads any memory as if it were contiguous, in silence.
    """
    notes: dict[int, str] = {}

    def fix(value: Any) -> Any:
        number = len(seen)
        seen.append(value)
        if not isinstance(value, torch.Tensor) or value.is_contiguous():
            return value.detach() if isinstance(value, torch.Tensor) else value
        layout = (
            "channels_last"
            if value.dim() == 4 and value.is_contiguous(memory_format=torch.channels_last)
            else f"strides {tuple(value.stride())}"
        )
        notes[number] = f"made contiguous; it had {layout}, which the HTP would have misread"
        return value.detach().contiguous()

    seen: list[Any] = []
    return torch.utils._pytree.tree_map(fix, tuple(inputs)), notes


def first_line(error: BaseException) -> str:
    """Type and first line of an exception's message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__

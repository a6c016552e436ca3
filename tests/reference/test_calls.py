"""Calling a module, calibration included, leaves no trace in it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from qnndbg.errors import LoweringError
from qnndbg.pipeline.calls import calibrate, first_line


class Observed(nn.Module):
    """A model's own state, and what an observer keeps."""

    hidden: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("hidden", torch.ones(1))
        self.activation_post_process_0 = nn.BatchNorm1d(1, momentum=1.0)
        self.seen: list[float] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(float(self.hidden))
        self.hidden.add_(x.sum())
        observed: torch.Tensor = self.activation_post_process_0(x)
        return observed


def test_states_start_anew_with_each_sample_and_observers_do_not() -> None:
    module = Observed().train()
    calibrate(module, [(torch.tensor([[1.0], [3.0]]),), (torch.tensor([[5.0], [7.0]]),)], ())
    assert (module.seen, module.hidden.item()) == ([1.0, 1.0], 1.0)
    assert module.activation_post_process_0.num_batches_tracked == 2
    assert module.activation_post_process_0.running_mean is not None
    assert module.activation_post_process_0.running_mean.item() == 6.0


def test_errors_are_told_in_a_line() -> None:
    assert first_line(ValueError("bad\nand a page of advice")) == "ValueError: bad"
    assert first_line(KeyError()) == "KeyError"


def test_calibration_sample_of_another_shape_says_which_it_is() -> None:
    example = (torch.ones(1, 4), torch.tensor([2]))
    module = torch.export.export(Scaled(), example, strict=True).module()
    with pytest.raises(LoweringError, match="calibration sample 1 cannot be run: ") as caught:
        calibrate(module, [example, (torch.ones(1, 5), torch.tensor([2]))], example)
    assert caught.value.hint == (
        "it is float32 (1, 5), int64 (1,); make it what the example inputs are: float32 (1, 4), int64 (1,)"
    )


def test_calibration_sample_that_fails_for_another_reason_gets_no_hint() -> None:
    with pytest.raises(
        LoweringError, match="calibration sample 0 cannot be run: ZeroDivisionError"
    ) as caught:
        calibrate(Dividing(), [(torch.ones(1),)], (torch.ones(1),))
    assert caught.value.hint == ""


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y


class Dividing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (1 // 0)

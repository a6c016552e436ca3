"""What the HTP would misread is mended and said, or refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from qnndbg.errors import UsageError
from tests.emulator import nets
from tests.emulator.conftest import Command, Recorded

NOTE = "made contiguous; it had channels_last, which the HTP would have misread"


def test_channels_last_is_made_contiguous(recorded: Recorded) -> None:
    recording = recorded("channels_last", "8a8w")
    (given,) = recording.manifest.inputs
    module, (x,) = nets.channels_last()
    assert not x.is_contiguous()
    assert given.note == NOTE
    assert np.array_equal(recording.tensor(given.tensor), x.numpy())
    expected = module(x).detach()
    (ref,) = recording.runs["htp"].results
    assert ref is not None
    error = torch.tensor(recording.tensor(ref)) - expected
    assert error.norm() < 0.02 * expected.norm()


def test_channels_last_is_to_blame_for_what_the_program_makes_of_it(recorded: Recorded) -> None:
    recording = recorded("channels_last", "8a8w")
    (given,) = recording.manifest.inputs
    assert given.strides == nets.channels_last()[1][0].stride()
    comparison = recording.comparison()
    assert comparison is not None
    assert (comparison.verdict.kind, comparison.verdict.culprit) == ("input", given.name)


def test_the_report_says_so(recorded: Recorded, command: Command) -> None:
    folder = str(recorded("channels_last", "8a8w").folder)
    assert NOTE in " ".join(command("show", folder).stdout.split())


def test_float64_input_is_refused(recorded: Recorded) -> None:
    with pytest.raises(UsageError) as caught:
        recorded("float64", "8a8w")
    assert caught.value.fact == "input 0 is float64, which QNN has no tensor type for"
    assert caught.value.hint == "pass float32: x.float() (input 0)"

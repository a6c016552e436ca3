"""Silero VAD 16 kHz: is this 32 ms of audio speech? A streaming net whose LSTM state is input and output.

310 k parameters: an STFT as a convolution, four more convolutions, an LSTM cell. The weights are
those of the safetensors file in the package silero-vad (MIT, Silero Team), which are not those of its
TorchScript file. The audio is a cut of 2 s, with speech, a pause and
speech again, from ``tests/data/test.wav`` of the same project's source distribution (MIT). Record it
with::

    pip install silero-vad==6.2.3
    qnndbg record example:silero --precision 16a8w
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from torch import nn

from qnndbg.examples._packages import package_file
from qnndbg.model.target import Target

WEIGHTS_COMMAND = "pip install silero-vad==6.2.3"
AUDIO = Path(__file__).parent / "data" / "silero_audio.npz"
CHUNK = 512
"""Samples that a step consumes: 32 ms at 16 kHz."""
CONTEXT = 64
"""Samples of the step before that precede them."""
HIDDEN = 128
EXAMPLE_STEP = 38
"""The step at which speech sets in again after the pause."""

Step = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class SileroVad(nn.Module):
    """One step: audio (n, 576), hidden and cell state (n, 128) to speech probability (n, 1) and both states.

    All float32. The names of the layers are those of the weights.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        self.conv1 = nn.Conv1d(129, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm_cell = nn.LSTMCell(HIDDEN, HIDDEN)
        self.final_conv = nn.Conv1d(HIDDEN, 1, 1)

    def forward(self, audio: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor) -> Step:
        """Speech probability of the chunk, and the states for the next step."""
        padded = nn.functional.pad(audio.unsqueeze(1), (0, CONTEXT), mode="reflect")
        real, imaginary = self.stft_conv(padded).chunk(2, dim=1)
        x = (real * real + imaginary * imaginary).sqrt()
        for conv in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = conv(x).relu()
        hidden, cell = self.step(x.squeeze(-1), hidden, cell)
        speech = self.final_conv(hidden.unsqueeze(-1).relu()).sigmoid().squeeze(-1)
        return speech, hidden, cell

    def step(
        self, x: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The LSTM cell written out, since a quantiser sees nothing inside ``aten.lstm_cell``."""
        weights = self.lstm_cell
        gates = nn.functional.linear(x, weights.weight_ih, weights.bias_ih)
        gates = gates + nn.functional.linear(hidden, weights.weight_hh, weights.bias_hh)
        keep_in, forget, candidate, emit = gates.chunk(4, dim=1)
        cell = forget.sigmoid() * cell + keep_in.sigmoid() * candidate.tanh()
        return emit.sigmoid() * cell.tanh(), cell


def weights_from_safetensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file that holds float32: length, JSON header with offsets, bytes."""
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    header.pop("__metadata__", None)
    tensors: dict[str, torch.Tensor] = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(raw[start + begin : start + end], dtype="<f4").reshape(entry["shape"])
        tensors[name] = torch.from_numpy(values.copy())
    return tensors


def load_steps(net: SileroVad) -> tuple[Step, ...]:
    """The model's inputs at each step of the audio, with the states that the net itself arrives at."""
    with np.load(AUDIO, allow_pickle=False) as stored:
        audio = torch.from_numpy(stored["pcm16"].astype(np.float32) / 32768.0)
    windows = nn.functional.pad(audio, (CONTEXT, 0)).unfold(0, CONTEXT + CHUNK, CHUNK)
    hidden, cell = torch.zeros(1, HIDDEN), torch.zeros(1, HIDDEN)
    steps: list[Step] = []
    with torch.no_grad():
        for window in windows.split(1):
            steps.append((window.contiguous(), hidden, cell))
            _, hidden, cell = net(*steps[-1])
    return tuple(steps)


def silero() -> Target:
    """The pretrained net, the step at which speech sets in as input, all steps as calibration.

    Raises:
        UsageError: silero-vad is not installed.
    """
    net = SileroVad()
    path = package_file("silero_vad", "data/silero_vad_16k.safetensors", WEIGHTS_COMMAND)
    net.load_state_dict(weights_from_safetensors(path))
    steps = load_steps(net.eval())
    return Target(module=net, inputs=steps[EXAMPLE_STEP], calibration=steps)

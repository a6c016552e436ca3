"""Makes the quantiser give one place of a net an encoding that does not fit it.

The observer of that place is told a range that is too small or too large; or the weights are of a kind that
one encoding for the whole tensor cannot hold; or one channel is so large that nothing is left for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import torch
from executorch.backends.qualcomm.quantizer.quantizer import QnnQuantizer, QuantDtype
from torch import nn
from torchao.quantization.pt2e import MinMaxObserver

from benchmarks.blame import nets
from benchmarks.blame.answer import Answer
from benchmarks.blame.damages import op_name
from qnndbg.model.target import Target

Plant = Callable[[Answer], None]
TOO_SMALL = (0.1, 0.2)
"""Parts of the true range: what is beyond is clipped."""
TOO_LARGE = (48.0, 96.0)
"""Multiples of it, which leave 8 bits with about two."""
SPOILT_DB = 10.0
"""What a wrong range may leave of the output, so that there is no doubt that it is a fault."""
OUTLIER = 500.0
"""A channel's size against the others'; 8 bits leave nothing for them."""


def sound_quantizer(precision: str, *, per_channel: bool = True) -> Callable[[Any], Any]:
    """The backend's quantiser, set up so that there is nothing to blame it for."""

    def make(_graph: Any) -> QnnQuantizer:
        quantizer = QnnQuantizer()
        quantizer.set_default_quant_config(
            QuantDtype[f"use_{precision}"],
            is_conv_per_channel=per_channel,
            is_linear_per_channel=per_channel,
            act_observer=MinMaxObserver,
        )
        return quantizer

    return make


def wrong_range(random: Random, precision: str, plant: Plant) -> Target:
    """The observer of one activation is wrong about its range."""
    small = random.random() < 0.5
    factor = random.uniform(*(TOO_SMALL if small else TOO_LARGE))
    seed = random.randrange(2**31)

    def make(graph: Any) -> QnnQuantizer:
        quantizer: Any = sound_quantizer(precision)(graph)
        annotate = quantizer.annotate

        def annotated(model: Any) -> Any:
            model = annotate(model)
            node = _misled(model, Random(seed), factor, inputs[-1])
            what = "too small" if small else "too large"
            plant(
                Answer(
                    kinds=("quantisation",),
                    culprits=(f"op:{op_name(node)}",),
                    note=f"the range of {node.name} is {what}, {factor:.2f} times the true one",
                )
            )
            return model

        quantizer.annotate = annotated
        return quantizer

    net = nets.random_net(random)
    inputs = nets.example_inputs(random, net)
    return Target(net, inputs[-1], inputs, quantizer=make)


def _misled(model: Any, random: Random, factor: float, inputs: tuple[Any, ...]) -> Any:
    """Give one annotated op, and all that read it, a misled observer; the op.

    A gate or a sum may hide what is lost before it, so it is one of the ops behind which it shows.
    """
    noted = [
        node
        for node in model.graph.nodes
        if node.op == "call_function"
        and op_name(node) in {"conv2d", "linear", "add", "sub", "mul", "matmul", "layer_norm"}
        and node.meta.get("quantization_annotation") is not None
        and hasattr(node.meta["quantization_annotation"].output_qspec, "observer_or_fake_quant_ctr")
    ]
    random.shuffle(noted)
    left = {node: _left(model, node, factor, inputs) for node in noted}
    node = next((node for node in noted if left[node] < SPOILT_DB), min(noted, key=lambda node: left[node]))
    annotation = node.meta["quantization_annotation"]
    spec = annotation.output_qspec
    wrong = replace(spec, observer_or_fake_quant_ctr=_Misled(spec.observer_or_fake_quant_ctr, factor))
    annotation.output_qspec = wrong
    for user in node.users:
        reads = user.meta.get("quantization_annotation")
        if reads is not None and node in reads.input_qspec_map:
            reads.input_qspec_map[node] = wrong
    return node


def _left(model: Any, node: Any, factor: float, inputs: tuple[Any, ...]) -> float:
    """SQNR in dB of the output if an op alone is rounded to 8 bits of a multiple of its range."""

    class Rounded(torch.fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            value = super().run_node(n)
            if n is not node:
                return value
            low, high = float(value.min()) * factor, float(value.max()) * factor
            step = (high - low) / 255
            return (value.clamp(low, high) / step).round() * step

    with torch.no_grad():
        exact, spoilt = model(*inputs), Rounded(model).run(*inputs)
    if isinstance(spoilt, (list, tuple)):
        spoilt = spoilt[0]
    return float(20 * torch.log10(exact.norm() / (exact - spoilt).norm().clamp(min=1e-12)))


class _Misled:
    """Makes observers that see a multiple of the range that there is."""

    __name__ = "MisledObserver"

    def __init__(self, make: Callable[..., Any], factor: float) -> None:
        self.make, self.factor = make, factor

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        observer = self.make(*args, **kwargs)
        calculate = observer.calculate_qparams

        def calculated() -> Any:
            low, high = observer.min_val.clone(), observer.max_val.clone()
            observer.min_val, observer.max_val = low * self.factor, high * self.factor
            found = calculate()
            observer.min_val, observer.max_val = low, high
            return found

        observer.calculate_qparams = calculated
        return observer

    def with_args(self, *args: Any, **kwargs: Any) -> Any:
        return _Misled(self.make.with_args(*args, **kwargs), self.factor)  # type: ignore[attr-defined]


def uneven_weights(random: Random, precision: str, plant: Plant) -> Target:
    """One output channel's weights are far larger, and all of them share an encoding."""
    channel = random.randrange(nets.CHANNELS)
    piece, op = _outlier(random, channel, image := random.random() < 0.5)
    net = nets.random_net(random, [piece], image=image)
    _enlarge(piece, channel)
    plant(
        Answer(
            kinds=("quantisation",),
            culprits=("constant", f"op:{op}"),
            note=f"channel {channel} of a {op} has weights {OUTLIER:.0f} times the others'",
        )
    )
    inputs = nets.example_inputs(random, net)
    return Target(net, inputs[-1], inputs, quantizer=sound_quantizer(precision, per_channel=False))


def outlier_channel(random: Random, precision: str, plant: Plant) -> Target:
    """One channel of an activation is far larger than the others, and is not used."""
    channel = random.randrange(nets.CHANNELS)
    piece, op = _outlier(random, channel, image := random.random() < 0.5)
    net = nets.random_net(random, [piece], image=image)
    _enlarge(piece, channel)
    plant(
        Answer(
            kinds=("quantisation",),
            culprits=(f"op:{op}",),
            note=f"channel {channel} behind a {op} is {OUTLIER:.0f} times the others",
        )
    )
    inputs = nets.example_inputs(random, net)
    return Target(net, inputs[-1], inputs, quantizer=sound_quantizer(precision))


class _Outlier(nn.Module):
    """A layer one channel of which is large, and without that channel behind it."""

    kept: torch.Tensor

    def __init__(self, layer: nn.Conv2d | nn.Linear, channel: int) -> None:
        super().__init__()
        self.layer = layer
        shape = (1, nets.CHANNELS, 1, 1) if isinstance(layer, nn.Conv2d) else (nets.CHANNELS,)
        kept = torch.ones(nets.CHANNELS)
        kept[channel] = 0.0
        self.register_buffer("kept", kept.reshape(shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float32 to the same shape."""
        y: torch.Tensor = self.layer(x) * self.kept
        return y


def _outlier(random: Random, channel: int, image: bool) -> tuple[_Outlier, str]:
    if image:
        size = random.choice((1, 3))
        return _Outlier(nn.Conv2d(nets.CHANNELS, nets.CHANNELS, size, padding=size // 2), channel), "conv2d"
    return _Outlier(nn.Linear(nets.CHANNELS, nets.CHANNELS), channel), "linear"


def _enlarge(piece: _Outlier, channel: int) -> None:
    with torch.no_grad():
        piece.layer.weight[channel] *= OUTLIER
        assert piece.layer.bias is not None
        piece.layer.bias[channel] *= OUTLIER

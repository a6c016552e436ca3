"""The networks that the benchmarks lower: MobileNetV2 and a small decoder of the llama family.

Plain torch with random weights of a fixed seed: what a lowering costs depends on the graph alone.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

Inputs = tuple[torch.Tensor, ...]

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks and stride of the first block: table 2 of Sandler et al., 2018."""


def _conv(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(),
    )


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project; added to the input where the shapes allow it."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.residual = stride == 1 and inputs == outputs
        self.body = nn.Sequential(
            *([_conv(inputs, hidden, 1)] if expansion > 1 else []),
            _conv(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float32 (n, inputs, h, w) to (n, outputs, h / stride, w / stride)."""
        y: torch.Tensor = self.body(x)
        return x + y if self.residual else y


class MobileNetV2(nn.Module):
    """Float32 images (n, 3, 224, 224) to the logits of 1000 classes; 3.5 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_conv(3, 32, 3, stride=2)]
        channels = 32
        for expansion, outputs, blocks, first_stride in STAGES:
            for block in range(blocks):
                stride = first_stride if block == 0 else 1
                layers.append(InvertedResidual(channels, outputs, stride, expansion))
                channels = outputs
        self.features = nn.Sequential(*layers, _conv(channels, 1280, 1))
        self.classifier = nn.Linear(1280, 1000)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Features, their mean over the image, classifier."""
        logits: torch.Tensor = self.classifier(self.features(image).mean((2, 3)))
        return logits


class RMSNorm(nn.Module):
    """Scales each vector to a root mean square of one, then by a learnt factor per channel."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float32 (..., dim) to the same shape."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Attention(nn.Module):
    """Causal attention, in which groups of query heads share a key and a value head."""

    def __init__(self, dim: int, heads: int, shared: int) -> None:
        super().__init__()
        self.heads, self.shared, self.width = heads, shared, dim // heads
        self.q = nn.Linear(dim, heads * self.width, bias=False)
        self.k = nn.Linear(dim, shared * self.width, bias=False)
        self.v = nn.Linear(dim, shared * self.width, bias=False)
        self.out = nn.Linear(heads * self.width, dim, bias=False)

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Float32 (1, length, dim) to the same shape.

        Args:
            x: normalised hidden states.
            cos: cosine of the rotary angles, (length, width / 2).
            sin: their sine.
            mask: added to the scores, (length, length).
        """
        q = _rotated(self._split(self.q(x), self.heads), cos, sin)
        k = _rotated(self._split(self.k(x), self.shared), cos, sin)
        v = self._split(self.v(x), self.shared)
        groups = self.heads // self.shared
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        scores = q @ k.transpose(2, 3) * self.width**-0.5 + mask
        mixed = (scores.softmax(-1) @ v).transpose(1, 2)
        y: torch.Tensor = self.out(mixed.reshape(1, mixed.shape[1], -1))
        return y

    def _split(self, x: torch.Tensor, heads: int) -> torch.Tensor:
        return x.view(1, x.shape[1], heads, self.width).transpose(1, 2)


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding: each pair of one channel of either half is turned by its position's angle."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


class SwiGLU(nn.Module):
    """A gated feed-forward layer: ``down(silu(gate(x)) * up(x))``."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float32 (..., dim) to the same shape."""
        y: torch.Tensor = self.down(functional.silu(self.gate(x)) * self.up(x))
        return y


class Block(nn.Module):
    """Attention and feed-forward, each normalised before and added to its input."""

    def __init__(self, dim: int, heads: int, shared: int, hidden: int) -> None:
        super().__init__()
        self.attention_norm, self.attention = RMSNorm(dim), Attention(dim, heads, shared)
        self.mlp_norm, self.mlp = RMSNorm(dim), SwiGLU(dim, hidden)

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """See :meth:`Attention.forward`."""
        x = x + self.attention(self.attention_norm(x), cos, sin, mask)
        y: torch.Tensor = x + self.mlp(self.mlp_norm(x))
        return y


class Decoder(nn.Module):
    """Int64 tokens (1, length) to the logits of the next one, (1, length, words)."""

    cos: torch.Tensor
    sin: torch.Tensor
    mask: torch.Tensor

    def __init__(
        self,
        *,
        words: int = 256,
        dim: int = 128,
        layers: int = 4,
        heads: int = 8,
        shared: int = 4,
        hidden: int = 352,
        length: int = 32,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, dim)
        self.layers = nn.ModuleList(Block(dim, heads, shared, hidden) for _ in range(layers))
        self.norm = RMSNorm(dim)
        self.head = nn.Linear(dim, words, bias=False)
        half = dim // heads // 2
        angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        # Finite, since fp16 on the HTP has no infinities.
        self.register_buffer("mask", torch.full((length, length), -1e4).triu(1))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Embed, all layers, norm and head."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin, self.mask)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


def mobilenet() -> tuple[nn.Module, Inputs]:
    """MobileNetV2 and an image of 224 by 224 pixels."""
    torch.manual_seed(0)
    return MobileNetV2().eval(), (torch.randn(1, 3, 224, 224),)


def decoder() -> tuple[nn.Module, Inputs]:
    """A decoder of 0.8 million parameters in 4 layers, and 32 tokens."""
    torch.manual_seed(0)
    return Decoder().eval(), (torch.randint(0, 256, (1, 32)),)

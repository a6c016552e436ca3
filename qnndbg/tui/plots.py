"""Numbers as bars of text, one line each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

BLOCKS = " ▁▂▃▄▅▆▇█"
"""Heights in eighths; the least that is not nothing is one of them."""


def spark(values: Sequence[float], *, logarithmic: bool = False) -> str:
    """A bar for each value, the highest full.

    Args:
        values: none negative.
        logarithmic: heights go with the logarithm, so that a tail is seen beside a peak.
    """
    heights = [math.log1p(v) if logarithmic else v for v in values]
    top = max(heights, default=0.0)
    if not top:
        return BLOCKS[0] * len(heights)
    return "".join(BLOCKS[0 if not h else max(1, round(8 * h / top))] for h in heights)


def gathered(values: Sequence[float], width: int) -> list[float]:
    """The largest of each stretch of values, in at most so many stretches."""
    count = len(values)
    if count <= width:
        return list(values)
    edges = [i * count // width for i in range(width + 1)]
    return [max(values[a:b]) for a, b in itertools.pairwise(edges)]


def real_text(value: float) -> str:
    """A real number in at most ten cells."""
    if math.isnan(value) or math.isinf(value):
        return str(value).replace("inf", "∞").replace("-", "−")
    return f"{value:.5g}".replace("-", "−")

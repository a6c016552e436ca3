"""Names the bundled examples; imports none of them, since each loads torch and its weights.

An example is a function without arguments that returns a :class:`qnndbg.model.target.Target`. No
example downloads anything: its files are committed here, or come with a package that it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """Where an example is, and what it is."""

    factory: str
    """``package.module:function``."""
    summary: str
    """One line for a list of examples."""


EXAMPLES: Mapping[str, Example] = {
    "digits": Example(
        "qnndbg.examples.digits:digits",
        "Image classifier: a small CNN on handwritten digits; complete, with test images and labels",
    ),
    "rnet": Example(
        "qnndbg.examples.rnet:rnet",
        "Face detector: RNet of MTCNN on photographs; needs facenet-pytorch and scikit-image",
    ),
    "silero": Example(
        "qnndbg.examples.silero:silero",
        "Audio: Silero voice activity detector with its LSTM state on real speech; needs silero-vad",
    ),
}

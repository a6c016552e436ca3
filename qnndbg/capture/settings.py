"""What a pass was made with, as text: the attributes of its instance that are plain values or ops.

Programs, modules and other objects are told by their type, so that nothing large and no address gets in.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from qnndbg.capture.targets import target_name

LONGEST = 200
"""Characters of one setting; a pass may hold a table of all ops."""


def settings_of(instance: object) -> dict[str, str]:
    """Attribute to its value in text, by name; of an object without attributes, nothing."""
    found = {name: _text(value) for name, value in sorted(getattr(instance, "__dict__", {}).items())}
    return {name: text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for name, text in found.items()}


def _text(value: object) -> str:
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype)):
        return repr(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_text(key)}: {_text(item)}' for key, item in value.items())}}}"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(_text(item) for item in value))}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_text(item) for item in value)}]"
    return target_name(value) if callable(value) and hasattr(value, "__name__") else type(value).__name__

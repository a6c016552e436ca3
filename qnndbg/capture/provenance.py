"""Says where a node comes from in terms of the user's model.

The evidence is what torch.export and the passes leave in ``node.meta``: ``from_node`` chains,
``nn_module_stack`` and ``stack_trace``. A node that has none of it was invented by a pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import torch

from qnndbg.model.graph import Origin

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def origin_of(node: torch.fx.Node, created_by: str) -> Origin:
    """The origin of a node.

    Args:
        node: of any stage.
        created_by: the pass that invented it, if one did.
    """
    if node.op in {"placeholder", "output"}:
        return Origin(created_by=created_by)
    path, kind = _module(node.meta.get("nn_module_stack"))
    return Origin(
        ancestors=tuple(dict.fromkeys(_roots(node.meta.get("from_node") or ()))),
        module_path=path,
        module_class=kind,
        source=_source(node.meta.get("stack_trace")),
        created_by=created_by,
    )


def has_ancestor(node: torch.fx.Node) -> bool:
    """Whether the node descends from another graph's node, and so was not invented."""
    return bool(node.meta.get("from_node")) or bool(node.meta.get("stack_trace"))


def _roots(sources: Any) -> Iterator[str]:
    """Names at the far end of ``from_node`` chains."""
    for source in sources:
        if source.from_node:
            yield from _roots(source.from_node)
        elif source.name:
            yield source.name


def _module(stack: Any) -> tuple[str, str]:
    """Path and class name of the innermost module of an ``nn_module_stack``."""
    if not stack:
        return "", ""
    path, kind = list(stack.values())[-1][:2]
    name = kind if isinstance(kind, str) else kind.__qualname__
    return re.sub(r"^L\['self'\]\.?|^L__self___?", "", str(path)), name.rsplit(".", 1)[-1]


def _source(trace: str | None) -> str:
    """``file:line`` of the innermost frame outside of torch."""
    frames = [(file, line) for file, line in _FRAME.findall(trace or "") if "/torch/" not in file]
    if not frames:
        return ""
    file, line = frames[-1]
    return f"{PurePath(file).name}:{line}"

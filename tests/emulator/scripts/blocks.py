"""Lowers in ``with qnndbg.record(...)`` blocks, and writes what it sees of them as JSON.

Argument: the file to write. The recordings are named after the functions here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
from executorch.backends.qualcomm.utils.utils import (
    generate_htp_compiler_spec,
    generate_qnn_executorch_compiler_spec,
    to_edge_transform_and_lower_to_qnn,
)
from torch import nn

import qnndbg
from qnndbg.capture.targets import target_name
from qnndbg.errors import UsageError

SHAPE = (1, 3, 6, 5)


def specs() -> Any:
    """Of half floats."""
    htp = generate_htp_compiler_spec(use_fp16=True)
    return generate_qnn_executorch_compiler_spec(soc_model=QcomChipset.SM8650, backend_options=htp)


def conv() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU()).eval()


def image(seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.randn(SHAPE)


def samples(place: Path) -> dict[str, Any]:
    """Three samples of a lowering, and a second lowering that is delegated only."""
    linear = nn.Linear(4, 4).eval()
    with qnndbg.record(place) as rec:
        program = to_edge_transform_and_lower_to_qnn(conv(), (image(1),), specs()).to_executorch()
        rec.run(image(2))
        rec.run(image(3).to(memory_format=torch.channels_last))
        edge = rec.edge_program()
        edge.graph_module.graph.eliminate_dead_code()
        unknown = said(lambda: rec.edge_program("decode"))
        to_edge_transform_and_lower_to_qnn(linear, (torch.ones(1, 4),), specs())
        rec.run(torch.full((1, 4), 2.0))
        within = len(rec.recordings)
    return {
        "edge ops": [target_name(node.target) for node in edge.graph.nodes if node.op == "call_function"],
        "unknown": unknown,
        "recordings within": within,
        "recordings": [str(recording.folder) for recording in rec.recordings],
        "program": len(program.buffer),
    }


def said(call: Callable[[], object]) -> list[str]:
    """The fact and the hint of what a call is refused with."""
    try:
        call()
    except UsageError as error:
        return [error.fact, error.hint]
    return []


def interrupted(place: Path) -> dict[str, Any]:
    """An exception of the caller's own behind a lowering."""
    try:
        with qnndbg.record(place):
            to_edge_transform_and_lower_to_qnn(conv(), (image(1),), specs())
            raise LookupError("of the caller's own")
    except LookupError as error:
        return {"error": str(error)}


def nothing(place: Path) -> dict[str, Any]:
    """No lowering at all."""
    with qnndbg.record(place) as rec:
        refused = said(rec.edge_program)
    return {"recordings": len(rec.recordings), "refused": refused}


def threads(place: Path) -> dict[str, Any]:
    """A second block in another thread while the first is open; then one within the other."""

    def another() -> None:
        with qnndbg.record(place.with_name("another")):
            pass

    with ThreadPoolExecutor(1) as pool, qnndbg.record(place):
        refused = pool.submit(said, another).result()
        another()
    return {"refused": refused, "later": said(another)}


def taken(place: Path) -> dict[str, Any]:
    """A place where a complete recording is."""

    def again() -> None:
        with qnndbg.record(place):
            pass

    return {"refused": said(again)}


class Mixed(nn.Module):
    """Takes what is no tensor between two that are, and gives some of it back."""

    def forward(
        self, x: torch.Tensor, n: int, nothing: None, y: torch.Tensor, negated: bool, scale: float
    ) -> tuple[torch.Tensor, int]:
        return (-x if negated else x) * n - y * scale, n


def literals(place: Path) -> dict[str, Any]:
    """Inputs and outputs that are no tensors."""
    x, y = torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([[8.0, 16.0, 32.0]])
    with qnndbg.record(place) as rec:
        to_edge_transform_and_lower_to_qnn(Mixed(), (x, 3, None, y, True, 0.5), specs())
        refused = [
            said(lambda: rec.run(x, 4, None, y, True, 0.5)),
            said(lambda: rec.run(x[:, :2], 3, None, y, True, 0.5)),
            said(lambda: rec.run(x)),
        ]
        rec.run(2 * x, 3, None, y, True, 0.5)
    return {"refused": refused}


def main(out: str) -> None:
    folder = Path(out).parent
    blocks = (samples, interrupted, nothing, literals, threads)
    seen = {block.__name__: block(folder / block.__name__) for block in blocks}
    seen["taken"] = taken(folder / "samples")
    Path(out).write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])

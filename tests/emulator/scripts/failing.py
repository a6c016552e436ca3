"""Lowers again and again, and has another pass raise each time: the first, a middle and the last of a stage.

Argument: the file to write, as JSON: place of each recording, the pass that raised, and what came out of
the lowering. When a pass runs is told by how many lines the recording's ``passes.jsonl`` has by then.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import torch
from executorch.backends.qualcomm.quantizer.quantizer import QnnQuantizer, QuantDtype
from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
from executorch.backends.qualcomm.utils.utils import (
    generate_htp_compiler_spec,
    generate_qnn_executorch_compiler_spec,
    to_edge_transform_and_lower_to_qnn,
)
from torch import nn
from torch.fx.passes.infra.pass_base import PassBase
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import qnndbg
from qnndbg.model.recording import PassEvent
from qnndbg.recording.place import partial

STAGES = ("annotation", "export", "edge", "transform", "preprocess", "executorch")
SEEDED = "seeded fault"


class EnoughError(Exception):
    """Ends a block before anything is executed."""


def lower() -> None:
    torch.manual_seed(0)
    inputs = (torch.randn(1, 4),)
    module: Any = torch.export.export(nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), inputs, strict=True)
    quantizer = QnnQuantizer()
    quantizer.set_default_quant_config(QuantDtype.use_8a8w)
    prepared = prepare_pt2e(module.module(), quantizer)
    prepared(*inputs)
    htp = generate_htp_compiler_spec(use_fp16=False)
    specs = generate_qnn_executorch_compiler_spec(soc_model=QcomChipset.SM8650, backend_options=htp)
    to_edge_transform_and_lower_to_qnn(convert_pt2e(prepared), inputs, specs).to_executorch()


def kinds(of: type = PassBase) -> Iterator[type[Any]]:
    """All classes of passes."""
    subclasses: list[type[Any]] = of.__subclasses__()
    for kind in subclasses:
        yield kind
        yield from kinds(kind)


@contextmanager
def failing(name: str, index: int, lines: Path) -> Iterator[None]:
    """Have the passes of a name raise where that many events were recorded before."""
    with ExitStack() as stack:
        named = {kind for kind in kinds() if kind.__name__ == name}
        for kind in named:
            original = kind.call

            def call(self: Any, *args: Any, original: Any = original) -> Any:
                if lines.read_bytes().count(b"\n") == index:
                    raise RuntimeError(SEEDED)
                return original(self, *args)

            stack.enter_context(patch.object(kind, "call", call))
        yield


def recorded(place: Path, event: PassEvent | None) -> str:
    """Record a lowering; give what came out of the block."""
    lines = partial(place) / "passes.jsonl"
    try:
        with qnndbg.record(place), ExitStack() as stack:
            if event is not None:
                stack.enter_context(failing(event.name, event.index, lines))
            lower()
            enough()
    except Exception as error:  # noqa: BLE001 whatever ExecuTorch makes of the fault
        return f"{type(error).__name__}: {error}"
    return ""


def enough() -> NoReturn:
    raise EnoughError("all went well")


def positions(events: tuple[PassEvent, ...]) -> Iterator[PassEvent]:
    """The first, a middle and the last pass of each stage."""
    known = {kind.__name__ for kind in kinds()}
    for stage in STAGES:
        runs = [event for event in events if event.stage == stage and event.name in known]
        yield from (runs[0], runs[len(runs) // 2], runs[-1])


def main(out: str) -> None:
    folder = Path(out).parent
    whole = folder / "whole.qnndbg"
    seen = [{"place": str(whole), "name": "", "stage": "", "index": -1, "said": recorded(whole, None)}]
    for event in positions(qnndbg.open_recording(whole).passes):
        place = folder / f"{event.index}.qnndbg"
        said = recorded(place, event)
        seen.append(
            {
                "place": str(place),
                "name": event.name,
                "stage": event.stage,
                "index": event.index,
                "said": said,
            }
        )
    Path(out).write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])

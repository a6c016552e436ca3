"""Turns each case of a registry on disk into a factory that ``qnndbg record`` takes.

A registry is a folder with ``cases.py``, whose ``CASES`` maps names to objects with ``build()``, ``mode`` and
``opts``. Its folder comes from the environment, since a target names nothing but a file and a function::

    QNNDBG_CASES=DIR qnndbg record benchmarks/blame/registry.py:NAME --precision MODE
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from qnndbg.model.target import Target

FOLDER = "QNNDBG_CASES"


def load_cases(folder: Path) -> Mapping[str, Any]:
    """The cases of a registry by name."""
    spec = importlib.util.spec_from_file_location("qnndbg_cases", folder / "cases.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    cases: Mapping[str, Any] = module.CASES
    return cases


def target_from_case(case: Any) -> Target:
    """A case's model and inputs; the evaluation inputs are the last of four values, if there are four."""
    torch.manual_seed(0)
    module, inputs, calibration, *evaluation = case.build()
    options = dict(case.opts)
    shapes = options.get("dynamic_shapes")
    return Target(
        module.eval(),
        evaluation[0] if evaluation else inputs,
        calibration,
        quantizer=None if case.mode == "fp16" else _quantizer(case.mode, options),
        qat=bool(options.get("qat")),
        dynamic_shapes=shapes() if callable(shapes) else shapes,
        lowering={
            k: options[k] for k in ("skip_node_op_set", "skip_node_id_set", "passes_job") if k in options
        },
    )


def _quantizer(mode: str, options: Mapping[str, Any]) -> Callable[[torch.fx.GraphModule], Any]:
    """The backend's quantiser with its defaults but for what the case asks."""
    from executorch.backends.qualcomm.quantizer.quantizer import QnnQuantizer, QuantDtype

    def make(graph: torch.fx.GraphModule) -> Any:
        quantizer = QnnQuantizer()
        quantizer.set_default_quant_config(
            QuantDtype[f"use_{mode}"],
            is_qat=bool(options.get("qat")),
            is_conv_per_channel=bool(options.get("is_conv_per_channel", False)),
            is_linear_per_channel=bool(options.get("is_linear_per_channel", False)),
        )
        if mode.endswith("_block"):
            quantizer.set_block_size_map(options["block_size_map"](graph))
        return quantizer

    return make


def __getattr__(name: str) -> Callable[[], Target]:
    """The factory of the case of that name."""
    if name.startswith("__") or FOLDER not in os.environ:
        raise AttributeError(name)
    cases = load_cases(Path(os.environ[FOLDER]))
    if name not in cases:
        raise AttributeError(name)
    return lambda: target_from_case(cases[name])

"""Loads what is to be recorded and checks it; runs in a worker, since it runs the user's code."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from qnndbg.errors import LoweringError, QnndbgError, UsageError
from qnndbg.model.target import Evaluation, Target
from qnndbg.pipeline.calls import flatten

PROTOCOL = (
    "a factory takes no arguments and returns (module, inputs), (module, inputs, calibration), "
    "(module, inputs, calibration, evaluation inputs) or a qnndbg.Target"
)
UNSUPPORTED = {
    torch.float64: "float64",
    torch.bfloat16: "bfloat16",
    torch.complex64: "complex64",
    torch.complex128: "complex128",
}
"""Input dtypes that QNN has no tensor for; upstream narrows them in silence."""


def load_target(spec: str) -> Target:
    """Call the factory that a target names.

    Args:
        spec: ``file.py:factory``, ``package.module:factory`` or ``example:NAME``.

    Raises:
        UsageError: it does not exist, or does not return what a factory must return.
        LoweringError: it raises.
    """
    place, _, name = spec.rpartition(":")
    if place == "example":
        place, _, name = _example(name).rpartition(":")
    factory = _factory(place, name)
    try:
        made = factory()
    except QnndbgError:
        raise
    except Exception as error:
        raise LoweringError(
            f"{name}() raised {type(error).__name__}: {error}",
            "mend the factory; the traceback is in logs/worker.log of the recording",
        ) from error
    return _checked(_target_from(made, name), name)


def _example(name: str) -> str:
    from qnndbg.examples import EXAMPLES

    if name not in EXAMPLES:
        raise UsageError(f"there is no example {name!r}", f"examples: {', '.join(sorted(EXAMPLES))}")
    return EXAMPLES[name].factory


def _factory(place: str, name: str) -> Callable[[], Any]:
    module = _module_from_file(Path(place)) if place.endswith(".py") else _module(place)
    factory: Any = getattr(module, name, None)
    if not callable(factory):
        known = sorted(
            k
            for k, v in vars(module).items()
            if inspect.isfunction(v)
            and not k.startswith("_")
            and getattr(v, "__module__", "") == module.__name__
        )
        raise UsageError(
            f"{place} has no function {name!r}", f"it has: {', '.join(known)}" if known else PROTOCOL
        )
    found: Callable[[], Any] = factory
    return found


def _module_from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(
            f"there is no file {path}", "a target is file.py:factory, package.module:factory or example:NAME"
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    _run(lambda: spec.loader.exec_module(module), str(path))  # type: ignore[union-attr]
    return module


def _module(name: str) -> ModuleType:
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise UsageError(
            f"there is no module {name!r}",
            "a target is file.py:factory, package.module:factory or example:NAME",
        )
    loaded: ModuleType = _run(lambda: importlib.import_module(name), name)
    return loaded


def _run(load: Callable[[], Any], what: str) -> Any:
    try:
        return load()
    except QnndbgError:
        raise
    except Exception as error:
        raise LoweringError(
            f"{what} cannot be imported: {type(error).__name__}: {error}",
            "mend it; the traceback is in logs/worker.log of the recording",
        ) from error


def _target_from(made: object, name: str) -> Target:
    if isinstance(made, Target):
        return replace(made, inputs=_inputs(made.inputs, name), calibration=_samples(made.calibration, name))
    if (
        not isinstance(made, (tuple, list))
        or not 2 <= len(made) <= 4
        or not isinstance(made[0], torch.nn.Module)
    ):
        raise UsageError(f"{name}() returned {_kind(made)}", PROTOCOL)
    module, inputs, calibration, evaluation = (*made, None, None)[:4]
    example = _inputs(inputs, name)
    if isinstance(evaluation, list) and any(isinstance(sample, (tuple, list)) for sample in evaluation):
        raise UsageError(
            f"{name}() gave {len(evaluation)} samples as evaluation inputs",
            "give one tuple of tensors; for several, lower in a block of qnndbg.record, and call rec.run",
        )
    return Target(
        module,
        example if evaluation is None else _inputs(evaluation, name),
        _samples(calibration, name) or [example],
    )


def _samples(value: object, name: str) -> list[tuple[object, ...]]:
    if value is None:
        return []
    if not isinstance(value, Iterable) or isinstance(value, torch.Tensor):
        raise UsageError(
            f"{name}() gave calibration of type {_kind(value)}", "it is a sequence of input tuples"
        )
    return [_inputs(sample, name) for sample in value]


def _inputs(value: object, name: str) -> tuple[object, ...]:
    if isinstance(value, torch.Tensor):
        return (value,)
    if not isinstance(value, (tuple, list)):
        raise UsageError(
            f"{name}() gave inputs of type {_kind(value)}",
            "inputs are a tuple of tensors, as the module is called with them",
        )
    return tuple(value)


def _kind(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__} of {', '.join(type(v).__name__ for v in value) or 'nothing'}"
    return type(value).__name__


def _checked(target: Target, name: str) -> Target:
    if not isinstance(target.module, torch.nn.Module):
        raise UsageError(f"{name}() gave a module of type {_kind(target.module)}", PROTOCOL)
    flat = flatten(target.inputs)
    if not flat:
        raise UsageError(
            f"{name}() gave no inputs", "the backend lowers models with at least one tensor input"
        )
    for i, value in enumerate(flat):
        if not isinstance(value, torch.Tensor):
            raise UsageError(
                f"input {i} is {_kind(value)}, not a tensor",
                "fix it in a wrapper module, and pass tensors only",
            )
        if value.dtype in UNSUPPORTED:
            raise UsageError(
                f"input {i} is {UNSUPPORTED[value.dtype]}, which QNN has no tensor type for",
                f"pass float32: x.float() (input {i})",
            )
    return target


def stacked(evaluation: Evaluation) -> list[torch.Tensor]:
    """One tensor per model input, with the samples along a new first axis."""
    rows = [flatten(sample) for sample in evaluation.inputs]
    return [torch.stack(column) for column in zip(*rows, strict=True)]

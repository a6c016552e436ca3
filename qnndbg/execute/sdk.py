"""Owns where the QNN libraries are and how they get into a process.

It never downloads one, never edits ``LD_LIBRARY_PATH``, and refuses a directory that lacks the
libraries, since ExecuTorch would find that out only in the middle of a lowering.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from qnndbg.errors import SdkError

HOST = Path("lib/x86_64-linux-clang")
"""Where an SDK keeps the libraries of the host; ExecuTorch looks nowhere else."""
LIBRARIES = ("libQnnSystem.so", "libQnnHtp.so")
"""In the order in which they are loaded."""
INSTALL = 'pip install "qnndbg[qnn]"'


class Sdk(Struct, frozen=True):
    """A QNN SDK that has the libraries; whether they work with ExecuTorch only a compile tells."""

    root: Path
    """What ``QNN_SDK_ROOT`` must be."""
    lib: Path
    """The directory with ``libQnnHtp.so``."""
    source: Literal["path", "QNN_SDK_ROOT", "pip"]
    """How it was found."""


def find_sdk(path: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Sdk:
    """Find an SDK: an explicit path, then ``QNN_SDK_ROOT``, then the package onnxruntime-qnn.

    Imports no package and loads no library.

    Raises:
        SdkError: nothing was found, or the first that was named has no libraries.
    """
    if path is not None:
        return _sdk_from_root(Path(path), "path", f"{path} is no QNN SDK")
    if named := environ.get("QNN_SDK_ROOT"):
        return _sdk_from_root(Path(named), "QNN_SDK_ROOT", f"QNN_SDK_ROOT is {named}, which is no QNN SDK")
    package = _package_folder()
    if package is None:
        raise SdkError("no QNN SDK was found", f"{INSTALL}, or set QNN_SDK_ROOT, or give --sdk PATH")
    if lost := _missing(package):
        raise SdkError(
            f"onnxruntime-qnn has no {lost} in {package}",
            "its wheels carry the HTP emulator for Linux on x86-64 only",
        )
    root = _view(package, environ)
    return Sdk(root, root / HOST, "pip")


def activate(sdk: Sdk) -> None:
    """Make the SDK usable in this process; call it in a worker, before anything of ExecuTorch.

    The backend opens the libraries by name and finds those loaded here, hence no ``LD_LIBRARY_PATH``.

    Raises:
        SdkError: torch is missing, or a library cannot be loaded.
    """
    # Set, it also keeps ExecuTorch from downloading an SDK of its own.
    os.environ["QNN_SDK_ROOT"] = str(sdk.root)
    try:
        # Loaded after these libraries torch aborts the process: "Pure virtual function called!".
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise SdkError(f"{error.name} is not installed", INSTALL) from error
    for name in LIBRARIES:
        try:
            ctypes.CDLL(str(sdk.lib / name))
        except OSError as error:
            raise SdkError(f"{name} cannot be loaded: {error}", f"reinstall the SDK in {sdk.root}") from error


def build_id(sdk: Sdk) -> str:
    """Return what the QNN library says of itself, such as ``v2.49.40.…``; needs an active SDK.

    Raises:
        SdkError: this ExecuTorch was built without the QNN backend.
    """
    try:
        from executorch.backends.qualcomm.python import PyQnnManagerAdaptor
    except ImportError as error:
        raise SdkError(f"ExecuTorch has no QNN backend: {error}", INSTALL) from error
    return str(PyQnnManagerAdaptor.GetQnnSdkBuildId(str(sdk.lib / "libQnnHtp.so")))


def _missing(lib: Path) -> str:
    return next((name for name in LIBRARIES if not os.access(lib / name, os.R_OK)), "")


def _sdk_from_root(root: Path, source: Literal["path", "QNN_SDK_ROOT"], refusal: str) -> Sdk:
    root = root.expanduser().absolute()
    if lost := _missing(root / HOST):
        raise SdkError(f"{refusal}: there is no {HOST / lost} in it", _near(root))
    return Sdk(root, root / HOST, source)


def _near(root: Path) -> str:
    """Return a hint: an SDK just above or below, as when a version's folder was left out."""
    around = [*root.parents[:3], *sorted(root.glob("*/"), reverse=True)]
    if found := next((folder for folder in around if not _missing(folder / HOST)), None):
        return f"{found} is one"
    return f"give the directory that contains {HOST / LIBRARIES[-1]}, or do without: {INSTALL}"


def _package_folder() -> Path | None:
    spec = importlib.util.find_spec("onnxruntime_qnn")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))).absolute()


def _view(package: Path, environ: Mapping[str, str]) -> Path:
    """Return a directory that looks like an SDK: one link to the package's folder.

    The folder, not its files: they find their libc++ relative to the folder that they are in. One
    view for each package folder, so that environments do not undo each other's.
    """
    try:
        cache = Path(environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute()
        root = cache / "qnndbg" / "sdk" / hashlib.sha256(os.fsencode(package)).hexdigest()[:16]
        link = root / HOST
        if not (link.is_symlink() and link.readlink() == package):
            _replace_link(link, package)
    except (OSError, RuntimeError) as error:  # RuntimeError: this user has no home directory
        raise SdkError(
            f"the link to the QNN libraries cannot be made: {error}",
            "set XDG_CACHE_HOME to a directory that can be written",
        ) from error
    return root


def _replace_link(link: Path, target: Path) -> None:
    """Set the link in one step, so that processes that do this at once all see a whole one."""
    link.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=link.parent) as scratch:
        fresh = Path(scratch) / link.name
        fresh.symlink_to(target, target_is_directory=True)
        fresh.replace(link)

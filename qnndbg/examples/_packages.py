"""Finds files that installed packages ship, without importing the packages.

Their ``__init__`` modules want torchvision, torchaudio and others that the weights do not need.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from qnndbg.errors import UsageError


def package_file(package: str, file: str, install: str) -> Path:
    """Path of a file inside an installed top-level package.

    Args:
        package: import name of the package.
        file: path relative to the package's folder.
        install: the command that installs a version which has the file; the hint of the error.

    Raises:
        UsageError: the package is not installed, or has no such file.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(f"this example needs the package {package}, which is not installed", install)
    path = Path(spec.submodule_search_locations[0]) / file
    if not path.is_file():
        raise UsageError(f"the installed package {package} has no file {file}", install)
    return path

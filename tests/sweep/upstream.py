"""Finds ExecuTorch's own tests of the QNN backend in the installed wheel, and imports them.

Which tests there are is asked at run time. Packages that only other tests of that file need, such as
those that draw or that hold whole networks, are replaced by empty ones where they are not installed: the
op tests never call them, and one that does fails with the name of what is missing.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import unittest
from collections.abc import Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from qnndbg.execute.sdk import activate, find_sdk

TESTS = "executorch.backends.qualcomm.tests.test_qnn_delegate"
CLASSES = {"float": "TestQNNFloatingPointOperator", "quantized": "TestQNNQuantizedOperator"}
"""How a row names each class of tests."""
SOC = "SM8650"
PREFIX = "test_qnn_backend_"


class _Absent(ModuleType):
    """A package that is not installed; whatever is imported from it is a class that does nothing."""

    __path__: list[str] = []  # noqa: RUF012 what makes a module a package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(f"{name}, of {self.__name__}, which is not installed,", (), {})


class _Absences(MetaPathFinder, Loader):
    """Answers for packages that an import has already failed for, and for no others."""

    def __init__(self) -> None:
        self.packages: set[str] = set()

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        known = fullname.partition(".")[0] in self.packages
        return ModuleSpec(fullname, self, is_package=True) if known else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to execute."""


def load() -> ModuleType:
    """Import the tests as a host with the x86 emulator has them; needs an SDK, whose version they ask."""
    activate(find_sdk())
    with _absences() as absences:
        while True:
            try:
                tests = importlib.import_module(TESTS)
                break
            except ModuleNotFoundError as error:
                package = (error.name or "").partition(".")[0]
                if package in {"", "executorch", *absences.packages}:
                    raise
                absences.packages.add(package)
    case = tests.TestQNN
    # As the argparse block at the end of that file sets them; the emulator is the x86 one.
    case.soc_model, case.backend, case.enable_x86_64 = SOC, "htp", True
    return tests


@contextlib.contextmanager
def _absences() -> Iterator[_Absences]:
    finder = _Absences()
    sys.meta_path.append(finder)
    try:
        yield finder
    finally:
        sys.meta_path.remove(finder)


def discover(tests: ModuleType) -> list[str]:
    """The names of all op tests, as ``float/abs`` and ``quantized/abs``."""
    loader = unittest.TestLoader()
    return [
        f"{short}/{name.removeprefix(PREFIX)}"
        for short, cls in CLASSES.items()
        for name in loader.getTestCaseNames(getattr(tests, cls))
    ]


def upstream_test(tests: ModuleType, name: str) -> unittest.TestCase:
    """The test of a name that :func:`discover` gave."""
    short, _, rest = name.partition("/")
    cls = getattr(tests, CLASSES[short])
    found: unittest.TestCase = cls(PREFIX + rest if hasattr(cls, PREFIX + rest) else rest)
    return found

"""Records each lowering of an upstream test, which otherwise runs as it is.

An upstream test makes a module and its inputs, quantises it with ``get_qdq_module`` or the like, and
hands it to ``lower_module_and_test_output``. That lowers, emits and asserts what was delegated; only its
last call, ``verify_output``, wants a phone or a runner binary that no wheel carries. So ``verify_output``
is the one thing that is replaced, by nothing. The other methods are called as they are, each in a
recording block, which opens where the quantiser begins and closes when the program is emitted: model,
inputs, quantiser settings, compile specs and assertions are all upstream's.

The worker process is expendable, so the measurements are made in it as well. In a process of their own,
as a recording block starts one (``--apart``), they would spend two thirds of the time on importing torch.
Memory that the HTP does not initialise may then hold what the lowering left there.

One block holds one lowering. A block around a whole test would not do: a lowering that fails within a
subtest would leak into the next one, and a native crash would cost them all.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import shutil
import time
import traceback
import unittest
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from executorch.exir.program._program import EdgeProgramManager
from msgspec.structs import replace

import qnndbg
from qnndbg.errors import QnndbgError, WorkerFailedError
from qnndbg.execute.native_log import qnn_complaint
from qnndbg.pipeline import live
from qnndbg.pipeline.descriptors import redirected
from qnndbg.pipeline.work import work
from qnndbg.recording.place import with_suffix
from tests.sweep.peer import ask
from tests.sweep.rows import LOG, Row, first_line, row_with_recording

QUANTIZERS = ("get_qdq_module", "get_prepared_qat_module")
TRAINER = "get_converted_sgd_trained_module"
LOWER = "to_edge_transform_and_lower_to_qnn"
ENOUGH = "further lowerings were not asked for"

Call = Callable[..., Any]


class _UnusedError(Exception):
    """Ends a block in which nothing was lowered."""


@dataclass(slots=True)
class _Block:
    """A recording block that is open."""

    context: contextlib.AbstractContextManager[live.LiveRecording]
    rec: live.LiveRecording
    place: Path
    model: str
    start: float
    logged: int
    """Size of the log when it began."""
    quantized: object = None
    """The module that the quantiser made in it."""
    etrecord: Any = None
    """Of upstream's lowering, if ExecuTorch's own debugger is to be asked."""
    peer: str = ""
    """Why there is no ETRecord."""


@dataclass(slots=True)
class Seam:
    """Stands between one test and the backend."""

    test: str
    keep: Path
    """The folder of all recordings."""
    first: int
    """Lowerings before this one were done already, by a worker that has died since."""
    most: int
    """How many lowerings are recorded; 0 for all."""
    peer: bool
    """Keep an ETRecord beside each recording."""
    apart: bool
    """Measure in a process of its own."""
    begun: Callable[[int, str], None]
    """Called before each lowering, with its number and model."""
    done: Callable[[Row], None]
    number: int = 0
    block: _Block | None = None
    emitted: Any = None
    """The last program that ``to_executorch`` made."""

    @contextlib.contextmanager
    def installed(self, tests: ModuleType) -> Iterator[None]:
        """Be there for the time of one test."""
        case = tests.TestQNN
        with contextlib.ExitStack() as stack:

            def put(owner: object, name: str, wrap: Callable[[Call], Call]) -> None:
                stack.enter_context(mock.patch.object(owner, name, wrap(getattr(owner, name))))

            for quantizer in QUANTIZERS:
                put(case, quantizer, self._quantizing)
            put(case, TRAINER, self._training)
            put(case, "lower_module_and_test_output", self._lowering)
            put(case, "verify_output", lambda _original: self._verified)
            if not self.apart:
                put(live, "run_job", lambda _original: _measured_here)
            if self.peer:
                put(importlib.import_module(case.__module__), LOWER, _with_etrecord)
                put(EdgeProgramManager, "to_executorch", self._emitting)
            try:
                yield
            finally:
                self._drop()

    def _quantizing(self, original: Call) -> Call:
        @functools.wraps(original)
        def call(case: unittest.TestCase, module: Any, *args: Any, **kwargs: Any) -> Any:
            self._drop()
            self._enough()
            if self.number < self.first:
                return original(case, module, *args, **kwargs)
            block = self._open(type(module).__name__)
            with self._closing_on_failure():
                block.quantized = original(case, module, *args, **kwargs)
            return block.quantized

        return call

    def _training(self, original: Call) -> Call:
        """What was prepared is trained and converted; that is what is lowered then."""

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.block is None:
                return original(*args, **kwargs)
            with self._closing_on_failure():
                self.block.quantized = original(*args, **kwargs)
            return self.block.quantized

        return call

    def _lowering(self, original: Call) -> Call:
        @functools.wraps(original)
        def call(case: unittest.TestCase, module: Any, *args: Any, **kwargs: Any) -> Any:
            self._enough()
            if self.number < self.first:
                self.number += 1
                return
            if self.block is None or self.block.quantized is not module:
                self._drop()
                self._open(type(module).__name__)
            with self._closing_on_failure():
                original(case, module, *args, **kwargs | ({"assert_output_equal": True} if self.peer else {}))
            self._close(None)

        return call

    def _verified(
        self, module: Any, sample_inputs: Any, executorch_prog: Any, *_args: Any, **_kwargs: Any
    ) -> None:
        """In the place of the device. A program that was made with an ETRecord comes by here."""
        if not self.peer or self.block is None:
            return
        try:
            self.block.etrecord = executorch_prog.get_etrecord()
            self.block.etrecord.update_representative_inputs(sample_inputs)
        except Exception as error:  # noqa: BLE001 whatever it raises is what the column tells
            self.block.peer = f"ETRecord: {first_line(error)}"

    def _emitting(self, original: Call) -> Call:
        """The last program that is emitted within a block is that of the build with the dump."""

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.emitted = original(*args, **kwargs)
            return self.emitted

        return call

    def _enough(self) -> None:
        if self.most and self.number >= self.most:
            raise unittest.SkipTest(ENOUGH)

    def _open(self, model: str) -> _Block:
        self.begun(self.number, model)
        place = with_suffix(self.keep / f"{self.test}.{self.number}")
        place.parent.mkdir(parents=True, exist_ok=True)
        start = time.perf_counter()
        context = qnndbg.record(place, force=True)
        self.block = _Block(context, context.__enter__(), place, model, start, _size(self.keep / LOG))
        return self.block

    @contextlib.contextmanager
    def _closing_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._close(error)
            raise

    def _close(self, error: BaseException | None) -> None:
        """End the block; what upstream asserts after the program is emitted is no failure to lower."""
        assert self.block is not None
        block, self.block, number = self.block, None, self.number
        self.number += 1
        said = "" if error is None else self._said(error, block)
        try:
            _leave(block, None if _asserted_by_test(error) else error)
        except QnndbgError as broken:
            said, status = f"{type(broken).__name__}: {broken.fact}", "qnndbg failed"
        else:
            status = "upstream failed"
        row = Row(
            test=self.test,
            case=number,
            status=status,  # type: ignore[arg-type] # one of two
            model=block.model,
            why=said,
            seconds=round(time.perf_counter() - block.start, 1),
            recording=block.place.relative_to(self.keep).as_posix() if block.place.exists() else "",
            peer=block.peer,
        )
        if block.rec.recordings:
            row = row_with_recording(row, block.rec.recordings[0])
        if row.status == "recorded" and block.etrecord is not None:
            row = replace(row, **ask(block.place, block.etrecord, self.emitted))
        self.done(row)

    def _said(self, error: BaseException, block: _Block) -> str:
        complaint = "" if _asserted_by_test(error) else qnn_complaint(self.keep / LOG, block.logged)
        return first_line(error) + (f"; QNN says: {complaint}" if complaint else "")

    def _drop(self) -> None:
        """Forget a block whose module was never lowered."""
        if self.block is not None:
            block, self.block = self.block, None
            _leave(block, _UnusedError())
            shutil.rmtree(block.place, ignore_errors=True)


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _asserted_by_test(error: BaseException | None) -> bool:
    """Whether it is an assertion of unittest's, not one within the lowering."""
    trace = error.__traceback__ if isinstance(error, AssertionError) else None
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and "__unittest" in trace.tb_frame.f_globals


def _measured_here(_function: str, payload: Mapping[str, object], *, log: Path) -> object:
    with redirected(log):
        try:
            return work(payload, lambda _event: None)
        except QnndbgError:
            raise
        except Exception as error:
            traceback.print_exc()
            raise WorkerFailedError(first_line(error)) from error


def _with_etrecord(original: Call) -> Call:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **{**kwargs, "generate_etrecord": True})

    return call


def _leave(block: _Block, error: BaseException | None) -> None:
    """Leave the block, with an error of the test or without; one of qnndbg's own is raised."""
    if error is None:
        block.context.__exit__(None, None, None)
        return
    with contextlib.suppress(type(error)):
        block.context.__exit__(type(error), error, error.__traceback__)

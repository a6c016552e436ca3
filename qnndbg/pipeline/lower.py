"""Captures: export, quantise, lower, and lower once more with every intermediate dumped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from executorch.backends.qualcomm.utils.utils import to_edge_transform_and_lower_to_qnn
from msgspec.structs import replace
from torchao.quantization.pt2e import quantize_pt2e

from qnndbg.capture.instrument import instrumented
from qnndbg.capture.recorder import Recorder
from qnndbg.capture.session import Session
from qnndbg.capture.tensors import array_from_tensor
from qnndbg.errors import LoweringError, QnndbgError
from qnndbg.model.graph import TensorRef
from qnndbg.model.recording import Accuracy, Run
from qnndbg.model.target import Target
from qnndbg.pipeline import recipe
from qnndbg.pipeline.calls import calibrate, call, contiguous, count_correct, first_line
from qnndbg.pipeline.failures import failed_pass, failure_at
from qnndbg.pipeline.finish import finish
from qnndbg.pipeline.jobs import Job, Lowered, Report, Samples
from qnndbg.pipeline.known import note_known, stored_inputs
from qnndbg.pipeline.target import load_target, stacked
from qnndbg.recording.place import partial
from qnndbg.recording.writer import Writer

Explain = Callable[[BaseException], LoweringError]
EXPORT_FIRST = "make torch.export.export(module, inputs, strict=True) work first"


def lower_target(job: Job, report: Report, build: str) -> list[Lowered]:
    """Lower what a factory makes, as it is and with the dump.

    Args:
        job: what to lower, and where its recording is.
        report: gets the steps and passes.
        build: the build id of the QNN libraries.

    Raises:
        UsageError: the target cannot be recorded.
        LoweringError: a step failed.
    """
    return [_TargetLowering(job, report).run(build)]


class _TargetLowering:
    def __init__(self, job: Job, report: Report) -> None:
        self.job, self.report = job, report
        self.writer = writer = Writer(partial(Path(job.folder)))
        recorder = Recorder(
            writer, lambda e: report({"pass": e.name, "stage": e.stage, "changed": e.changed})
        )
        self.session = Session(lambda _number: recorder, note_known)
        self.recorder = recorder

    def run(self, build: str) -> Lowered:
        recipe.check(self.job.precision, self.job.soc)
        environment = self.writer.read_manifest().environment
        self.writer.update_manifest(environment=replace(environment, qnn_build=build))
        self.report({"step": "load"})
        target = load_target(self.job.target)
        inputs, _ = contiguous(target.inputs)
        self.writer.update_manifest(inputs=tuple(stored_inputs(self.writer, target.inputs)))
        if target.module.training:
            target.module.eval()
            self.writer.add_notes("the module was in training mode; it was recorded in eval mode")
        self.report({"step": "eager"})
        with _explained(_saying("the module cannot be run with its inputs", "run module(*inputs) first")):
            self._run("eager", target.module, inputs)
            correct = self._accuracy("eager", target, target.module)
        with instrumented(self.session):
            module = self._quantised(target, inputs, correct)
            self._save_accuracy(target, correct)
            self._lowered(target, module, inputs)
            self.report({"step": "tap"})
            # As the factory gave them, so that the notes say what was done to them.
            self.session.lowering.inputs["forward"] = target.inputs
            return finish(self.session, self.session.lowering, self.writer, {}, self._samples(target))

    def _quantised(
        self, target: Target, inputs: tuple[object, ...], correct: dict[str, int]
    ) -> torch.nn.Module:
        if self.job.precision == "fp16":
            return target.module
        self.report({"step": "export"})
        with _explained(_saying("the model does not export", EXPORT_FIRST)):
            shapes: Any = target.dynamic_shapes
            graph = torch.export.export(target.module, inputs, dynamic_shapes=shapes, strict=True).module()
        self.report({"step": "quantise"})
        with _explained(self._or_pass(_saying("the quantiser failed", "try another precision"))):
            prepared = self._prepared(target, graph)
        samples = [contiguous(sample)[0] for sample in target.calibration or (inputs,)]
        calibrate(prepared, samples, inputs)
        with _explained(lambda error: _saying("the quantiser failed", _range_hint(samples, error))(error)):
            converted: torch.nn.Module = quantize_pt2e.convert_pt2e(prepared)
        self._run("quantized", converted, inputs)
        correct |= self._accuracy("quantized", target, converted)
        return converted

    def _prepared(self, target: Target, graph: Any) -> Any:
        if target.quantizer is not None:
            quantizer: Any = target.quantizer(graph)
        else:
            quantizer, notes = recipe.quantizer_for(self.job.precision, self.job.soc, graph, qat=target.qat)
            self.writer.add_notes(*notes)
        prepare = quantize_pt2e.prepare_qat_pt2e if target.qat else quantize_pt2e.prepare_pt2e
        return prepare(graph, quantizer)

    def _lowered(self, target: Target, module: torch.nn.Module, inputs: tuple[object, ...]) -> None:
        self.report({"step": "lower"})
        specs = recipe.compile_specs(self.job.precision, self.job.soc)
        given = dict(target.lowering)
        if target.dynamic_shapes is not None:
            given["dynamic_shapes"] = target.dynamic_shapes
        with _explained(self._or_pass(self._lowering_failed)):
            to_edge_transform_and_lower_to_qnn(module, inputs, specs, **given).to_executorch()

    def _or_pass(self, explain: Explain) -> Explain:
        """The pass that failed, if it was one; else what is said otherwise."""

        def explain_pass(error: BaseException) -> LoweringError:
            self.writer.update_manifest(failure=failure_at(self.recorder, error))
            reason = failed_pass(self.recorder)
            return explain(error) if reason is None else LoweringError(*reason)

        return explain_pass

    def _lowering_failed(self, error: BaseException) -> LoweringError:
        stage = self.recorder.latest
        if stage in {"", "annotation", "quantized"}:
            return _saying("the model does not export", EXPORT_FIRST)(error)
        return _saying(f"lowering failed in the stage {stage}", "")(error)

    def _run(self, runner: str, module: torch.nn.Module, inputs: Sequence[object]) -> None:
        outputs = call(module, inputs)
        self.writer.run(Run(runner=runner, results=tuple(self._result(o) for o in outputs)))  # type: ignore[arg-type]

    def _accuracy(self, runner: str, target: Target, module: torch.nn.Module) -> dict[str, int]:
        if target.evaluation is None:
            return {}
        outputs = [call(module, sample)[0] for sample in target.evaluation.inputs]
        return {runner: count_correct(outputs, target.evaluation.labels)}

    def _save_accuracy(self, target: Target, correct: dict[str, int]) -> None:
        if target.evaluation is not None:
            self.writer.update_manifest(
                accuracy=Accuracy(samples=len(target.evaluation.labels), correct=correct)
            )

    def _samples(self, target: Target) -> Samples | None:
        if target.evaluation is None:
            return None
        return Samples(
            inputs=tuple(self._tensor(t) for t in stacked(target.evaluation)),
            labels=tuple(target.evaluation.labels),
        )

    def _tensor(self, value: Any) -> TensorRef:
        return self.writer.tensor(*array_from_tensor(value))

    def _result(self, value: object) -> TensorRef | None:
        return self._tensor(value) if isinstance(value, torch.Tensor) else None


@contextmanager
def _explained(explain: Explain) -> Iterator[None]:
    """Whatever user code or ExecuTorch raises in the block becomes an error that says what failed."""
    try:
        yield
    except QnndbgError:
        raise
    except Exception as error:
        raise explain(error) from error


def _range_hint(samples: Sequence[Sequence[object]], error: BaseException) -> str:
    """What to do where the observers have no range to offer, which NaN and infinities leave."""
    for number, sample in enumerate(samples):
        tensors = (value for value in sample if isinstance(value, torch.Tensor))
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
            return f"calibration sample {number} holds NaN or infinities: leave it out, or replace them"
    if "nan" in str(error):
        return "the model makes NaN of the calibration inputs; the op that does so: --precision fp16 names it"
    return "try another precision"


def _saying(what: str, hint: str) -> Explain:
    return lambda error: LoweringError(f"{what}: {first_line(error)}", hint)

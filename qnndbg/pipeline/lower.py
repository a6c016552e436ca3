"""Captures: export, quantise, lower, and lower once more with every intermediate dumped."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import torch

from qnndbg.capture.instrument import Instrument, instrumented
from qnndbg.capture.recorder import Recorder
from qnndbg.capture.tensors import array_from_tensor
from qnndbg.errors import LoweringError, QnndbgError
from qnndbg.model.graph import TensorRef
from qnndbg.model.recording import Input, Run
from qnndbg.model.target import Target
from qnndbg.pipeline.calls import call, count_correct, flatten
from qnndbg.pipeline.jobs import Job, Lowered, Report, Samples
from qnndbg.recording.writer import Writer

EXPORT_FIRST = "make torch.export.export(module, inputs, strict=True) work first"


class Lowering:
    """One lowering of a target, written into a recording as it goes.

    Args:
        job: what to lower, and where the recording is.
        report: gets the steps and passes.
    """

    def __init__(self, job: Job, report: Report) -> None:
        self.job, self.report = job, report
        self.writer = Writer(Path(job.folder))
        self.recorder = Recorder(
            self.writer, lambda e: report({"pass": e.name, "stage": e.stage, "changed": e.changed})
        )
        self.notes: list[str] = []

    def run(self, build: str) -> Lowered:
        """Lower twice, as it is and with the dump.

        Args:
            build: the build id of the QNN libraries.

        Raises:
            UsageError: the target cannot be recorded.
            LoweringError: a step failed.
        """
        from qnndbg.pipeline import recipe
        from qnndbg.pipeline.target import contiguous, load_target

        recipe.check(self.job.precision, self.job.soc)
        manifest = self.writer.read_manifest()
        self.writer.update_manifest(
            environment=msgspec.structs.replace(manifest.environment, qnn_build=build)
        )
        self.report({"step": "load"})
        target = load_target(self.job.target)
        inputs, fixed = contiguous(target.inputs)
        self._note_inputs(inputs, fixed)
        self.report({"step": "eager"})
        with _explained(_saying("the module cannot be run with its inputs", "run module(*inputs) first")):
            self._run("eager", target.module, inputs)
            correct = self._accuracy("eager", target, target.module)
        with instrumented(self.recorder) as instrument:
            module = self._quantised(target, inputs, correct)
            self._lowered(module, inputs)
            tapped = self._tapped(instrument)
        self.writer.update_manifest(notes=tuple(self.notes))
        return Lowered(tapped=tapped, samples=self._samples(target))

    def _note_inputs(self, inputs: Sequence[object], fixed: Mapping[int, str]) -> None:
        self.writer.update_manifest(
            inputs=tuple(
                Input(name=f"input {i}", tensor=self._tensor(value), note=fixed.get(i, ""))
                for i, value in enumerate(flatten(inputs))
            )
        )

    def _quantised(
        self, target: Target, inputs: tuple[object, ...], correct: dict[str, int]
    ) -> torch.nn.Module:
        if self.job.precision == "fp16":
            self._save_accuracy(target, correct)
            return target.module
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        from qnndbg.pipeline import recipe
        from qnndbg.pipeline.target import contiguous

        self.report({"step": "export"})
        with _explained(_saying("the model does not export", EXPORT_FIRST)):
            graph = torch.export.export(target.module, inputs, strict=True).module()
        self.report({"step": "quantise"})
        with _explained(_saying("the quantiser failed", "try another precision")):
            quantizer, notes = recipe.quantizer_for(self.job.precision, self.job.soc, graph)
            self.notes += notes
            prepared = prepare_pt2e(graph, quantizer)
            with torch.no_grad():
                for sample in target.calibration or (inputs,):
                    prepared(*contiguous(sample)[0])
            converted: torch.nn.Module = convert_pt2e(prepared)
        with self.recorder.stage("quantized", converted):  # type: ignore[arg-type]
            self._run("quantized", converted, inputs)
        correct |= self._accuracy("quantized", target, converted)
        self._save_accuracy(target, correct)
        return converted

    def _lowered(self, module: torch.nn.Module, inputs: tuple[object, ...]) -> None:
        from executorch.backends.qualcomm.utils.utils import to_edge_transform_and_lower_to_qnn

        from qnndbg.pipeline import recipe

        self.report({"step": "lower"})
        specs = recipe.compile_specs(self.job.precision, self.job.soc, tapped=False)
        with _explained(self._lowering_failed):
            self.writer.program(
                "htp", to_edge_transform_and_lower_to_qnn(module, inputs, specs).to_executorch().buffer
            )

    def _lowering_failed(self, error: BaseException) -> LoweringError:
        failed, stage = self.recorder.failed, self.recorder.latest
        if failed is not None:
            what = f"the pass {failed.name} of the stage {failed.stage} failed: {failed.error}"
            return LoweringError(what, "the recording has the graph that the pass got")
        if stage in {"", "annotation", "quantized"}:
            return _saying("the model does not export", EXPORT_FIRST)(error)
        return _saying(f"lowering failed in the stage {stage}", "keep the op that it names off the HTP")(
            error
        )

    def _tapped(self, instrument: Instrument) -> bool:
        """Build again from the same edge program, with all intermediates dumped; False if that fails."""
        from executorch.backends.qualcomm.partition.qnn_partitioner import QnnPartitioner
        from executorch.backends.qualcomm.utils.qnn_manager_lifecycle import QnnManagerContext

        from qnndbg.pipeline import recipe

        self.report({"step": "tap"})
        self.recorder.passes = False
        specs = recipe.compile_specs(self.job.precision, self.job.soc, tapped=True)
        methods = instrument.edge_manager.methods
        try:
            with QnnManagerContext(dict.fromkeys(methods, specs)):
                manager = instrument.edge_manager.to_backend({m: QnnPartitioner(specs) for m in methods})
            self.writer.program("htp-tapped", manager.to_executorch().buffer)
        except Exception as error:  # noqa: BLE001 whatever the backend raises, the production build stands
            traceback.print_exc()
            self.notes.append(
                f"no layer could be compared: the build with dumped intermediates failed: {error}"
            )
            return False
        return True

    def _run(self, runner: str, module: torch.nn.Module, inputs: Sequence[object]) -> None:
        outputs = call(module, inputs)
        self.writer.run(Run(id=runner, runner=runner, results=tuple(self._result(o) for o in outputs)))  # type: ignore[arg-type]

    def _accuracy(self, runner: str, target: Target, module: torch.nn.Module) -> dict[str, int]:
        if target.evaluation is None:
            return {}
        outputs = [call(module, sample)[0] for sample in target.evaluation.inputs]
        return {runner: count_correct(outputs, target.evaluation.labels)}

    def _save_accuracy(self, target: Target, correct: dict[str, int]) -> None:
        from qnndbg.model.recording import Accuracy

        if target.evaluation is not None:
            self.writer.update_manifest(
                accuracy=Accuracy(samples=len(target.evaluation.labels), correct=correct)
            )

    def _samples(self, target: Target) -> Samples | None:
        from qnndbg.pipeline.target import stacked

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
def _explained(explain: Callable[[BaseException], LoweringError]) -> Iterator[None]:
    """Whatever user code or ExecuTorch raises in the block becomes an error that says what failed."""
    try:
        yield
    except QnndbgError:
        raise
    except Exception as error:
        raise explain(error) from error


def _saying(what: str, hint: str) -> Callable[[BaseException], LoweringError]:
    return lambda error: LoweringError(f"{what}: {first_line(error)}", hint)


def first_line(error: BaseException) -> str:
    """Type and first line of an exception's message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__

"""What capturing costs: one lowering plain, recorded by qnndbg, and with a naive copy after each pass.

Every lowering has a process of its own, so that its peak memory is its own and nothing is warm::

    python -m benchmarks.capture_cost            # all cases, five times
    python -m benchmarks.capture_cost decoder -n 9

Imports, the making of the network and of the emulator's libraries are outside of the time. The second build
with all intermediates dumped, and the runs, come after the lowering and are no part of its cost.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CASES = {"mobilenet": ("MobileNetV2", "8a8w"), "decoder": ("decoder", "fp16")}
"""Function in ``benchmarks.nets`` to its network's name and the precision that it is lowered in."""
MODES = ("plain", "qnndbg", "naive")
SOC = "SM8650"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one lowering took."""

    seconds: float
    """Wall time."""
    cpu: float
    """Time of the process on a processor, in seconds."""
    peak: float
    """Largest resident set of the process, in MB (2**20 bytes)."""
    passes: int = 0
    """Pass events, snapshots at the borders of stages among them."""
    snapshots: int = 0
    """Graphs that were stored, or deep copies that were made."""
    stored: float = 0.0
    """Size of the stored graphs, in MB, without the weights."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("-n", "--times", type=int, default=5, help="repetitions of each lowering")
    parser.add_argument("--one", nargs=3, metavar=("CASE", "MODE", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        case, mode, file = options.one
        Path(file).write_text(json.dumps(asdict(measure(case, mode))))
        return
    unknown = sorted(set(options.cases) - set(CASES))
    if unknown:
        parser.error(f"there is no case {unknown[0]!r}; there are: {', '.join(CASES)}")
    for case in options.cases or CASES:
        sys.stdout.write("\n".join(table(case, measured(case, options.times))) + "\n\n")


def measured(case: str, times: int) -> dict[str, list[Cost]]:
    """All costs by mode; the modes take turns at being first, so that no drift of the machine favours one."""
    costs: dict[str, list[Cost]] = {mode: [] for mode in MODES}
    for turn in range(times):
        shift = turn % len(MODES)
        for mode in (*MODES[shift:], *MODES[:shift]):
            costs[mode].append(in_process(case, mode))
            sys.stderr.write(f"{case} {mode}: {costs[mode][-1].seconds:.2f} s\n")
    return costs


def in_process(case: str, mode: str) -> Cost:
    """Measure in a fresh process; what that says is shown only if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "cost.json")
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.capture_cost", "--one", case, mode, str(result)],
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        if done.returncode or not result.exists():
            raise SystemExit(f"{case} {mode} failed:\n{done.stderr[-4000:]}")
        return Cost(**json.loads(result.read_text()))


def measure(case: str, mode: str) -> Cost:
    """Lower one network once, in this process."""
    from qnndbg.execute.sdk import activate, find_sdk

    activate(find_sdk())
    from executorch.backends.qualcomm.utils.utils import to_edge_transform_and_lower_to_qnn

    from benchmarks import nets
    from qnndbg.pipeline import recipe

    precision = CASES[case][1]
    module, inputs = getattr(nets, case)()
    specs = recipe.compile_specs(precision, SOC)
    watch = {"plain": plain, "qnndbg": recorded, "naive": copied}[mode]
    with watch() as found:
        if precision != "fp16":
            module = quantised(module, inputs, precision)
        before = resource.getrusage(resource.RUSAGE_SELF)
        start = time.perf_counter()
        to_edge_transform_and_lower_to_qnn(module, inputs, specs).to_executorch()
        seconds = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Cost(seconds=seconds, cpu=cpu, peak=after.ru_maxrss / 1024, **found())


Found = Callable[[], dict[str, Any]]


@contextmanager
def plain() -> Iterator[Found]:
    """Nothing looks on."""
    yield dict


@contextmanager
def recorded() -> Iterator[Found]:
    """As ``qnndbg record`` watches a lowering, writing to disk."""
    from qnndbg.capture.instrument import instrumented
    from qnndbg.capture.recorder import Recorder
    from qnndbg.capture.session import Session
    from qnndbg.model.recording import Manifest
    from qnndbg.pipeline import publish
    from qnndbg.pipeline.known import note_known
    from qnndbg.recording.writer import Writer

    folder = Path(tempfile.mkdtemp(suffix=".qnndbg"))
    writer = Writer(folder)
    writer.manifest(Manifest(target="", precision="", soc="", environment=publish.environment("pip")))
    recorder = Recorder(writer)

    def found() -> dict[str, Any]:
        graphs = list((folder / "graphs").iterdir())
        size = sum(path.stat().st_size for path in graphs) / 2**20
        return {"passes": recorder.count, "snapshots": len(graphs), "stored": size}

    try:
        with instrumented(Session(lambda _number: recorder, note_known)):
            yield found
    finally:
        shutil.rmtree(folder)


@contextmanager
def copied() -> Iterator[Found]:
    """A deep copy of the graph module after every pass, kept as a debugger would have to."""
    from unittest.mock import patch

    from torch.fx.passes.infra.pass_base import PassBase

    copies = []
    original = PassBase.__call__

    def call(self: Any, module: Any) -> Any:
        result = original(self, module)
        copies.append(copy.deepcopy(result.graph_module if result is not None else module))
        return result

    with patch.object(PassBase, "__call__", call):
        yield lambda: {"passes": len(copies), "snapshots": len(copies)}


def quantised(module: Any, inputs: Any, precision: str) -> Any:
    """Export, calibrate with the example inputs and convert."""
    import torch
    from torchao.quantization.pt2e import quantize_pt2e

    from qnndbg.pipeline import recipe

    graph = torch.export.export(module, inputs, strict=True).module()
    quantizer, _ = recipe.quantizer_for(precision, SOC, graph)
    prepared = quantize_pt2e.prepare_pt2e(graph, quantizer)
    with torch.no_grad():
        prepared(*inputs)
    return quantize_pt2e.convert_pt2e(prepared)


def table(case: str, costs: dict[str, list[Cost]]) -> list[str]:
    """The medians, and their ratios to those of the plain lowering; noise moves the least time least."""
    name, precision = CASES[case]
    base = median(costs["plain"])
    quickest = {mode: min(cost.seconds for cost in found) for mode, found in costs.items()}
    lines = [
        f"{name} {precision}, medians of {len(costs['plain'])}",
        f"{'':8}{'time':>9}{'ratio':>8}{'least':>9}{'ratio':>8}{'CPU':>9}{'ratio':>8}{'peak':>9}{'ratio':>8}"
        f"{'passes':>8}{'snapshots':>11}{'stored':>9}",
    ]
    for mode, found in costs.items():
        mid = median(found)
        lines.append(
            f"{mode:8}{mid.seconds:7.2f} s{mid.seconds / base.seconds:8.3f}"
            f"{quickest[mode]:7.2f} s{quickest[mode] / quickest['plain']:8.3f}"
            f"{mid.cpu:7.2f} s{mid.cpu / base.cpu:8.3f}{mid.peak:6.0f} MB{mid.peak / base.peak:8.3f}"
            f"{mid.passes or '–':>8}{mid.snapshots or '–':>11}"
            + (f"{mid.stored:6.2f} MB" if mid.stored else f"{'–':>9}")
        )
    return lines


def median(costs: Sequence[Cost]) -> Cost:
    """The median of each quantity."""
    rows = [asdict(cost) for cost in costs]
    return Cost(**{key: statistics.median(row[key] for row in rows) for key in rows[0]})


if __name__ == "__main__":
    main()

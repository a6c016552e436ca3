"""The format of a baseline: a folder of sorted text, a line for each layer, graph node and pass.

A folder rather than one file, so that a review shows at a glance which part of a lowering moved, and what did
not stays out of it. Not compressed, for the same reason.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from qnndbg.errors import RecordingError, SchemaError, UsageError
from qnndbg.model.baseline import BASELINE_SCHEMA_VERSION, BaselineData
from qnndbg.model.graph import Graph
from qnndbg.model.recording import PassEvent, QnnGraph, QnnOp, QnnTensor, Run
from qnndbg.model.result import Comparison, LayerResult, Rung
from qnndbg.recording import lines, schema
from qnndbg.recording.store import Recording, read_part

FRONT = "baseline.json"
BASELINE_SUFFIX = ".baseline"
LINES = ".jsonl"
"""Ending of the files that hold a thing a line."""


class Front(Struct, frozen=True, kw_only=True):
    """What only a baseline has: its own schema, sizes of programs that are not there, counts of lines."""

    schema: int = BASELINE_SCHEMA_VERSION
    sizes: dict[str, int]
    """Program to its bytes."""
    lines: dict[str, int] = {}
    """File to the number of its lines, since a line that is missing leaves no other trace; empty if an older
    qnndbg wrote it, which did not count."""


class _GraphLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """First line of a graph's file."""

    digest: str
    graph: Graph
    """Without its nodes."""


class Baseline(Recording):
    """A recording without tensors, which reads like any other.

    Args:
        folder: where it is, or where the recording is that it was made of.
        data: all of it.
    """

    canonical = True

    def __init__(self, folder: Path, data: BaselineData) -> None:
        super().__init__(folder, data.manifest)
        self.data = data
        self.passes = data.passes
        self.qnn = data.qnn
        self.runs = {run.id: run for run in data.runs}
        self.attributions = ()
        self.pass_changes = ()
        self.sizes = data.sizes

    def graph(self, digest: str) -> Graph:
        """A graph that is kept.

        Raises:
            RecordingError: it is not.
        """
        if digest not in self.data.graphs:
            raise RecordingError(
                f"the baseline {self.folder} does not keep graph {digest}", "restore its folder graphs"
            )
        return self.data.graphs[digest]

    def holds(self, digest: str) -> bool:
        """Whether the graph is kept."""
        return digest in self.data.graphs

    def comparison(self) -> Comparison:
        """The comparison."""
        return self.data.comparison

    def damage(self) -> str:
        """Nothing: a baseline with a part missing is not opened."""
        return ""


def write_baseline(folder: Path, baseline: Baseline) -> None:
    """Write a baseline in the place of the one that is there; equal ones have equal bytes.

    Raises:
        UsageError: something else is there, or it cannot be written.
    """
    if not absent(folder) and not (folder / FRONT).is_file():
        raise UsageError(f"{folder} is there and is no baseline", "move it away, or give another name")
    files = _files(baseline.data)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as place:
            _put(Path(place), files, folder)
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be written: {error.strerror}",
            "check the path, its permissions, and that no other process writes it",
        ) from error


def _put(place: Path, files: dict[str, bytes], folder: Path) -> None:
    """Write to a place of our own, then change places, so that another writer never sees a half of it."""
    for name, text in sorted(files.items()):
        path = place / "new" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    if folder.exists():
        folder.rename(place / "old")
    (place / "new").rename(folder)


def absent(folder: Path) -> bool:
    """Whether there is nothing that a baseline would replace: no folder, or an empty one."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def _files(data: BaselineData) -> dict[str, bytes]:
    answer = replace(data.comparison, layers=(), ladder=())
    files = {
        "manifest.json": schema.encode_pretty(data.manifest),
        "passes.jsonl": lines.table(PassEvent, data.passes, leave_out=("index", "seconds")),
        "layers.jsonl": lines.table(LayerResult, data.comparison.layers),
        "ladder.jsonl": lines.table(Rung, data.comparison.ladder),
        "answer.json": schema.encode_pretty(answer),
        "runs.jsonl": lines.objects(data.runs),
    }
    for key, graph in data.graphs.items():
        digest, _, place = key.partition("/")
        first = _GraphLine(digest=digest, graph=replace(graph, nodes=()))
        files[f"graphs/{place}.jsonl"] = lines.objects([first]) + lines.nodes(graph.nodes)
    for qnn in data.qnn:
        place = f"qnn/{qnn.method}.{qnn.partition}"
        front = lines.objects([replace(qnn, ops=(), tensors=())])
        files[f"{place}.ops.jsonl"] = front + lines.table(QnnOp, qnn.ops)
        files[f"{place}.tensors.jsonl"] = lines.table(QnnTensor, qnn.tensors)
    counts = {name: len(text.splitlines()) for name, text in files.items() if name.endswith(LINES)}
    return files | {FRONT: schema.encode_pretty(Front(sizes=data.sizes, lines=counts))}


def outdated(folder: Path) -> bool:
    """Whether an older qnndbg wrote the baseline, so that its digests cannot be compared.

    Raises:
        RecordingError: it is damaged.
    """
    front = folder / FRONT
    return front.is_file() and schema.decode(read_part(front), Front, FRONT).schema < BASELINE_SCHEMA_VERSION


def open_baseline(folder: Path) -> Baseline:
    """Read a baseline.

    Raises:
        SchemaError: another version wrote it, whose digests cannot be compared with this one's.
        RecordingError: a part is missing or damaged.
    """
    front = schema.decode(read_part(folder / FRONT), Front, FRONT)
    if front.schema != BASELINE_SCHEMA_VERSION:
        raise SchemaError(
            f"{folder} has baseline schema {front.schema}, and this qnndbg works with "
            f"{BASELINE_SCHEMA_VERSION}",
            f"renew it from a recording of what is good: qnndbg check RECORDING --update --baseline {folder}"
            if front.schema < BASELINE_SCHEMA_VERSION
            else "update qnndbg: pip install --upgrade qnndbg",
        )
    try:
        return _read(folder, front)
    except SchemaError:
        raise
    except RecordingError as error:
        raise RecordingError(
            f"the baseline {folder} is damaged: {error}",
            "restore it from version control; or delete it and make it anew: "
            f"qnndbg check RECORDING --update --baseline {folder}",
        ) from error


def _check_lines(folder: Path, expected: dict[str, int]) -> None:
    """Refuse files with more or fewer lines than were written, be it by a merge or by hand."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob(f"*{LINES}")}
    for name in sorted({*expected, *paths}):
        if name not in paths:
            raise RecordingError(f"{name} is missing", "restore the file")
        found, wanted = len(read_part(paths[name]).splitlines()), expected.get(name, 0)
        if found != wanted:
            raise RecordingError(f"{name} has {found} lines, and {wanted} were written", "restore the file")


def _read(folder: Path, front: Front) -> Baseline:
    if front.lines:
        _check_lines(folder, front.lines)
    layers = lines.read_table(LayerResult, read_part(folder / "layers.jsonl"), "layers.jsonl")
    ladder = lines.read_table(Rung, read_part(folder / "ladder.jsonl"), "ladder.jsonl")
    answer = schema.decode(read_part(folder / "answer.json"), Comparison, "answer.json")
    events = lines.read_table(PassEvent, read_part(folder / "passes.jsonl"), "passes.jsonl", numbered="index")
    data = BaselineData(
        manifest=schema.decode_manifest(read_part(folder / "manifest.json")),
        sizes=front.sizes,
        passes=events,
        graphs=dict(_graph(path) for path in sorted((folder / "graphs").glob("*.jsonl"))),
        qnn=tuple(sorted(map(_qnn, (folder / "qnn").glob("*.ops.jsonl")), key=_partition)),
        runs=lines.read_objects(Run, read_part(folder / "runs.jsonl"), "runs.jsonl"),
        comparison=replace(answer, layers=layers, ladder=ladder),
    )
    return Baseline(folder, data)


def _graph(path: Path) -> tuple[str, Graph]:
    first, _, rest = read_part(path).partition(b"\n")
    line = schema.decode(first, _GraphLine, path.name)
    return f"{line.digest}/{path.stem}", replace(line.graph, nodes=lines.read_nodes(rest, path.name))


def _partition(graph: QnnGraph) -> tuple[str, int]:
    return graph.method, graph.partition


def _qnn(path: Path) -> QnnGraph:
    first, _, ops = read_part(path).partition(b"\n")
    tensors = path.with_name(path.name.replace(".ops.", ".tensors."))
    return replace(
        schema.decode(first, QnnGraph, path.name),
        ops=lines.read_table(QnnOp, ops, path.name),
        tensors=lines.read_table(QnnTensor, read_part(tensors), tensors.name),
    )

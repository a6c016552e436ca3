"""Opens a recording. A reader changes nothing, and loads each part when it is asked for."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from qnndbg.errors import RecordingError
from qnndbg.model.attribution import Attribution, PassChange
from qnndbg.model.graph import Graph, TensorRef
from qnndbg.model.layer_ladder import LayerLadder
from qnndbg.model.recording import Input, Manifest, PassEvent, QnnGraph, Run, RunnerName
from qnndbg.model.result import Comparison
from qnndbg.recording import schema

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qnndbg.recording.blobs import Blobs

T = TypeVar("T")


def open_recording(path: str | Path) -> Recording:
    """Open a recording, complete or not, or a baseline.

    Raises:
        RecordingError: there is none, or it is damaged.
        SchemaError: a newer qnndbg wrote it.
    """
    folder = Path(path)
    if (folder / "baseline.json").is_file():
        from qnndbg.recording.baseline import open_baseline  # which is a recording itself

        return open_baseline(folder)
    if not folder.exists():
        raise RecordingError(
            f"there is no recording {folder}", "make one with: qnndbg record TARGET -o " + str(folder)
        )
    if not (folder / "manifest.json").is_file():
        raise RecordingError(
            f"{folder} is not a recording: it has no manifest.json",
            "a recording is a folder that qnndbg record wrote",
        )
    return Recording(
        folder, schema.decode_manifest(read_part(folder / "manifest.json"), f"{folder.name}/manifest.json")
    )


class _Nodes(msgspec.Struct):
    """A graph whose nodes are counted, not read."""

    nodes: list[msgspec.Raw]


class Recording:
    """A recording on disk.

    Args:
        folder: where it is.
        manifest: its front page.
    """

    canonical = False
    """Its digests are those of structures, so that two graphs are the same if their digests are."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest

    @functools.cached_property
    def _blobs(self) -> Blobs:
        from qnndbg.recording.blobs import Blobs  # numpy takes long to load, and few reports need a tensor

        return Blobs(self.folder / "tensors")

    @functools.cached_property
    def passes(self) -> tuple[PassEvent, ...]:
        """All pass events, in order; a last line that was cut off by a crash is left out."""
        path = self.folder / "passes.jsonl"
        if not path.exists():
            return ()
        *lines, _cut_off = read_part(path).split(b"\n")
        return tuple(schema.decode(line, PassEvent, self._name(path)) for line in lines if line)

    def graph(self, digest: str) -> Graph:
        """A stored graph.

        Raises:
            RecordingError: it is missing or damaged.
        """
        if not schema.DIGEST.fullmatch(digest):
            raise RecordingError(f"{digest!r} is no graph digest", "the recording is damaged; record again")
        return schema.decode(
            schema.read_gzip(self.folder / "graphs" / f"{digest}.json.gz"),
            Graph,
            f"graph {digest} of {self.folder.name}",
        )

    def holds(self, digest: str) -> bool:
        """Whether the graph is there to be read; a baseline keeps few."""
        return bool(digest)

    @functools.cached_property
    def sizes(self) -> dict[str, int]:
        """Program to its bytes."""
        return {path.stem: path.stat().st_size for path in sorted((self.folder / "programs").glob("*.pte"))}

    def node_count(self, digest: str) -> int:
        """How many nodes a stored graph has; far cheaper than loading it.

        Raises:
            RecordingError: it is missing or damaged.
        """
        data = schema.read_gzip(self.folder / "graphs" / f"{digest}.json.gz")
        return len(schema.decode(data, _Nodes, f"graph {digest} of {self.folder.name}").nodes)

    @functools.cached_property
    def qnn(self) -> tuple[QnnGraph, ...]:
        """The QNN graphs by method and partition."""
        graphs = [self._decoded(path, QnnGraph) for path in sorted((self.folder / "qnn").glob("*.json"))]
        return tuple(sorted(graphs, key=lambda g: (g.method, g.partition)))

    @functools.cached_property
    def runs(self) -> dict[str, Run]:
        """Run id to run."""
        found = [self._decoded(path, Run) for path in sorted((self.folder / "runs").glob("*.json"))]
        return {run.id: run for run in found}

    @functools.cached_property
    def attributions(self) -> tuple[Attribution, ...]:
        """How the error of each output splits over the places where errors are made."""
        paths = sorted((self.folder / "attributions").glob("*.json"))
        return tuple(self._decoded(path, Attribution) for path in paths)

    @functools.cached_property
    def pass_changes(self) -> tuple[PassChange, ...]:
        """The passes that changed the numbers, where any did."""
        paths = sorted((self.folder / "pass-changes").glob("*.json"))
        return tuple(self._decoded(path, PassChange) for path in paths)

    def layer_ladder(self, method: str = "forward", sample: int = 0) -> LayerLadder | None:
        """What each rung adds to each layer of one sample, if it was measured."""
        ladders = {(ladder.method, ladder.sample): ladder for ladder in self.layer_ladders}
        return ladders.get((method, sample))

    @functools.cached_property
    def layer_ladders(self) -> tuple[LayerLadder, ...]:
        """The ladders of the layers, by method and sample."""
        paths = sorted((self.folder / "layer-ladders").glob("*.json"))
        found = [self._decoded(path, LayerLadder) for path in paths]
        for ladder in found:
            for layer in ladder.layers:
                if not len(ladder.rungs) == len(layer.against_eager) == len(layer.against_previous):
                    raise RecordingError(
                        f"the ladder {ladder.id} of {layer.tensor!r} has not an entry for each rung",
                        "the recording is damaged; record again",
                    )
        return tuple(sorted(found, key=lambda ladder: (ladder.method, ladder.sample)))

    def run(self, runner: RunnerName, method: str = "forward", sample: int = 0) -> Run | None:
        """The run of one runner for one sample of one method; None if there was none."""
        return self.runs.get(Run(runner=runner, method=method, sample=sample).id)

    def inputs(self, method: str = "forward", sample: int = 0) -> tuple[Input, ...]:
        """The tensor inputs of one sample of one method, in flattened order."""
        return tuple(i for i in self.manifest.inputs if (i.method, i.sample) == (method, sample))

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in the order of their export."""
        return tuple(dict.fromkeys(i.method for i in self.manifest.inputs))

    @property
    def samples(self) -> tuple[tuple[str, int], ...]:
        """Method and number of each sample."""
        return tuple(dict.fromkeys((i.method, i.sample) for i in self.manifest.inputs))

    def tensor(self, ref: TensorRef) -> NDArray[np.generic]:
        """A stored tensor, mapped read-only; see :meth:`Blobs.get`."""
        return self._blobs.get(ref)

    def lost_tensors(self, refs: Iterable[TensorRef]) -> int:
        """How many of these tensors are missing, or are shorter than they say; reads none of them."""
        return sum(not self._blobs.is_whole(ref) for ref in refs)

    def comparison(self) -> Comparison | None:
        """The comparison, if the recording got that far."""
        return self._comparison

    @functools.cached_property
    def _comparison(self) -> Comparison | None:
        path = self.folder / "comparison.json"
        return self._decoded(path, Comparison) if path.exists() else None

    def _name(self, path: Path) -> str:
        """A file as a message names it, which may be about either of two recordings."""
        return f"{self.folder.name}/{path.relative_to(self.folder)}"

    def _decoded(self, path: Path, kind: type[T]) -> T:
        return schema.decode(read_part(path), kind, self._name(path))

    def damage(self) -> str:
        """What is missing of it, in one sentence; empty if nothing is known to be. Unpacks nothing.

        A recording that failed may end anywhere, a complete one not.
        """
        graphs = {event.after for event in self.passes if event.after} | {g.graph for g in self.qnn}
        lost = sorted(d for d in graphs if not (self.folder / "graphs" / f"{d}.json.gz").is_file())
        if lost:
            return f"{len(lost)} of {len(graphs)} graphs are missing in graphs/"
        if not self.manifest.complete:
            return ""
        path = self.folder / "passes.jsonl"
        whole = path.exists() and read_part(path).endswith(b"\n")
        ends = {"partition", "executorch"}  # how far each lowering gets that can be measured
        if not whole or not self.passes or self.passes[-1].stage not in ends:
            return "passes.jsonl ends too early" if path.exists() else "passes.jsonl is missing"
        return "" if (self.folder / "comparison.json").exists() else "comparison.json is missing"

    def first_graph(self, stage: str, method: str = "forward") -> Graph | None:
        """The snapshot with which a stage began, if it was reached."""
        for event in self.passes:
            if (event.stage, event.method) == (stage, method) and event.after:
                return self.graph(event.after)
        return None

    def last_graph(self, stage: str, method: str = "forward", partition: int | None = None) -> Graph | None:
        """The snapshot with which a stage ended, if it was reached."""
        for event in reversed(self.passes):
            if (event.stage, event.method, event.partition) == (stage, method, partition) and event.after:
                return self.graph(event.after)
        return None


def read_part(path: Path) -> bytes:
    """The bytes of a file of a recording.

    Raises:
        RecordingError: it cannot be read, or is no regular file.
    """
    schema.check_regular(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordingError(
            f"{path.name} cannot be read: {error.strerror}", "check the path and its permissions"
        ) from error

"""Writes a recording part by part, so that a process that dies leaves what it had captured."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from qnndbg.model.attribution import Attribution, PassChange
from qnndbg.model.graph import Graph, TensorRef
from qnndbg.model.layer_ladder import LayerLadder
from qnndbg.model.recording import Manifest, PassEvent, QnnGraph, Run
from qnndbg.model.result import Comparison
from qnndbg.recording import schema
from qnndbg.recording.blobs import Blobs


class Writer:
    """Adds parts to one recording; several processes may, one after the other.

    Args:
        folder: the recording's folder; made if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._blobs = Blobs(folder / "tensors")

    def manifest(self, manifest: Manifest) -> None:
        """Write the front page."""
        self._write("manifest.json", schema.encode_pretty(manifest))

    def read_manifest(self) -> Manifest:
        """The front page as it is now."""
        return schema.decode_manifest((self.folder / "manifest.json").read_bytes())

    def update_manifest(self, **changes: object) -> Manifest:
        """Change fields of the front page; gives the new one."""
        new = replace(self.read_manifest(), **changes)
        self.manifest(new)
        return new

    def add_notes(self, *notes: str) -> None:
        """Add what a reader must know; what is noted already stays once."""
        known = self.read_manifest().notes
        self.update_manifest(notes=tuple(dict.fromkeys((*known, *notes))))

    def tensor(self, array: NDArray[np.generic], dtype: str | None = None) -> TensorRef:
        """Store a tensor; see :meth:`Blobs.put`."""
        return self._blobs.put(array, dtype)

    def stored(self, ref: TensorRef) -> NDArray[np.generic]:
        """A tensor that was stored before; see :meth:`Blobs.get`."""
        return self._blobs.get(ref)

    def graph(self, graph: Graph) -> str:
        """Store a graph unless it is there; gives its digest."""
        data = schema.encode(graph)
        key = schema.digest(data)
        name = f"graphs/{key}.json.gz"
        if not (self.folder / name).exists():
            self._write(name, schema.gzipped(data))
        return key

    def pass_event(self, event: PassEvent) -> None:
        """Append a pass event."""
        with (self.folder / "passes.jsonl").open("ab") as file:
            file.write(schema.encode(event) + b"\n")

    def qnn_graph(self, graph: QnnGraph) -> None:
        """Write what a partition became."""
        self._write(f"qnn/{file_name(graph.method)}-{graph.partition}.json", schema.encode_pretty(graph))

    def run(self, run: Run) -> None:
        """Write a run."""
        self._write(f"runs/{file_name(run.id)}.json", schema.encode_pretty(run))

    def attribution(self, attribution: Attribution) -> None:
        """Write how one output's error splits over its places."""
        self._write(f"attributions/{file_name(attribution.id)}.json", schema.encode_pretty(attribution))

    def layer_ladder(self, ladder: LayerLadder) -> None:
        """Write what each rung adds to each layer."""
        self._write(f"layer-ladders/{file_name(ladder.id)}.json", schema.encode(ladder))

    def pass_change(self, change: PassChange) -> None:
        """Write which pass changed the numbers between two rungs."""
        name = f"pass.{change.method}.{change.sample}.{change.before}"
        self._write(f"pass-changes/{file_name(name)}.json", schema.encode_pretty(change))

    def comparison(self, comparison: Comparison) -> None:
        """Write the comparison."""
        self._write("comparison.json", schema.encode_pretty(comparison))

    def program(self, name: str, data: bytes) -> Path:
        """Write an ExecuTorch program; gives its path."""
        return self._write(f"programs/{name}.pte", data)

    def log(self, name: str) -> Path:
        """The path of a log file."""
        path = self.folder / "logs" / f"{name}.log"
        path.parent.mkdir(exist_ok=True)
        return path

    def _write(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        partial.write_bytes(data)
        return partial.replace(path)


def file_name(text: str) -> str:
    """The text with everything replaced that a file name should not hold."""
    return re.sub(r"[^\w.-]", "_", text)

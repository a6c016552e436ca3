"""Writes part by part, each part at once or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qnndbg.analyze.verdict import empty_comparison
from qnndbg.errors import RecordingError
from qnndbg.model.graph import Graph, Node, Output
from qnndbg.model.recording import Failure, PassEvent, QnnGraph, Run
from qnndbg.recording.store import open_recording
from qnndbg.recording.writer import Writer, file_name
from tests.unit.recordings import manifest

MANIFEST = manifest()


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    writer = Writer(tmp_path / "runs" / "new.qnndbg")
    writer.manifest(MANIFEST)
    return writer


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def graph(name: str) -> Graph:
    return Graph(nodes=(Node(name=name, op="placeholder"),), outputs=(Output(value=None),))


def test_all_parts_have_their_places(writer: Writer) -> None:
    ref = writer.tensor(np.zeros(3, np.float32))
    key = writer.graph(graph("x"))
    writer.pass_event(PassEvent(index=0, stage="export", name=""))
    writer.qnn_graph(QnnGraph(method="forward", partition=0, graph=key, ops=(), tensors=()))
    writer.run(Run(runner="eager", results=(ref,)))
    writer.comparison(empty_comparison())
    program = writer.program("htp", b"program")
    writer.log("lower").write_text("noise")
    assert sorted(tree(writer.folder)) == [
        "comparison.json",
        f"graphs/{key}.json.gz",
        "logs/lower.log",
        "manifest.json",
        "passes.jsonl",
        "programs/htp.pte",
        "qnn/forward-0.json",
        "runs/eager.json",
        f"tensors/{ref.digest}.npy",
    ]
    assert program.read_bytes() == b"program"


def test_two_writers_one_after_the_other_make_one_recording(writer: Writer) -> None:
    other = Writer(writer.folder)
    for index, each in enumerate((writer, other)):
        each.pass_event(PassEvent(index=index, stage="export", name=f"Pass{index}"))
        each.graph(graph("x"))
    assert other.read_manifest() == MANIFEST
    recording = open_recording(writer.folder)
    assert [event.name for event in recording.passes] == ["Pass0", "Pass1"]
    assert len(list((writer.folder / "graphs").iterdir())) == 1


def test_equal_recordings_are_equal_files(tmp_path: Path) -> None:
    trees = []
    for name in ("one", "two"):
        writer = Writer(tmp_path / name)
        writer.manifest(MANIFEST)
        writer.graph(graph("x"))
        writer.run(Run(runner="eager", problems={"b": "2", "a": "1"}))
        writer.tensor(np.arange(4))
        trees.append(tree(writer.folder))
    assert trees[0] == trees[1]


def test_graphs_that_differ_in_a_name_are_both_kept(writer: Writer) -> None:
    assert writer.graph(graph("x")) != writer.graph(graph("y"))
    assert writer.graph(graph("x")) == writer.graph(graph("x"))
    assert len(list((writer.folder / "graphs").iterdir())) == 2


def test_front_page_is_changed_field_by_field(writer: Writer) -> None:
    writer.update_manifest(notes=("one",))
    new = writer.update_manifest(failure=Failure(step="lower", error="no"), complete=False)
    assert new == writer.read_manifest()
    assert (new.notes, new.failure, new.target) == (
        ("one",),
        Failure(step="lower", error="no"),
        MANIFEST.target,
    )


def test_front_page_that_is_damaged_is_not_overwritten(writer: Writer) -> None:
    path = writer.folder / "manifest.json"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(RecordingError):
        writer.update_manifest(complete=True)
    assert len(path.read_bytes()) == 50


def test_last_run_of_an_id_stays(writer: Writer) -> None:
    writer.run(Run(runner="local", problems={"a": "first"}))
    writer.run(Run(runner="local", problems={"a": "second"}))
    assert open_recording(writer.folder).runs["local"].problems == {"a": "second"}


def full_disk(self: Path, data: bytes) -> int:
    """Stands in for ``Path.write_bytes`` where there is room for ten bytes more."""
    with self.open("wb") as file:
        file.write(data[:10])
    raise OSError(28, "No space left on device")


def test_write_that_fails_leaves_what_was_there(writer: Writer) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "write_bytes", full_disk)
        with pytest.raises(OSError, match="No space"):
            writer.manifest(MANIFEST)
    assert writer.read_manifest() == MANIFEST


def test_graph_whose_write_failed_can_be_written_again(writer: Writer) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "write_bytes", full_disk)
        with pytest.raises(OSError, match="No space"):
            writer.graph(graph("x"))
    assert open_recording(writer.folder).graph(writer.graph(graph("x"))) == graph("x")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("htp-tapped", "htp-tapped"),
        ("decode.1", "decode.1"),
        ("../../etc/passwd", ".._.._etc_passwd"),
        ("a b:c\\d\n", "a_b_c_d_"),
        ("prefill/größe", "prefill_größe"),
    ],
)
def test_file_names_lead_nowhere_else(text: str, name: str) -> None:
    assert file_name(text) == name


def test_names_from_a_model_stay_inside_the_recording(writer: Writer) -> None:
    before = set(writer.folder.parent.iterdir())
    writer.qnn_graph(QnnGraph(method="../../up", partition=1, graph="0" * 32, ops=(), tensors=()))
    writer.run(Run(runner="eager", method="../up"))
    assert set(writer.folder.parent.iterdir()) == before
    recording = open_recording(writer.folder)
    assert ([g.method for g in recording.qnn], list(recording.runs)) == (["../../up"], ["eager.../up.0"])

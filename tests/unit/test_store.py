"""Opens recordings: whole ones, ones that end early, damaged and hostile ones."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from qnndbg.errors import RecordingError, SchemaError
from qnndbg.model.graph import Graph, Node, Output, Ref, Seq, TensorRef
from qnndbg.model.recording import Input, PassEvent, QnnGraph, Run, Stage
from qnndbg.recording import schema
from qnndbg.recording.store import Recording, open_recording
from qnndbg.recording.writer import Writer
from tests.unit.recordings import manifest

MANIFEST = manifest()


def graph(name: str) -> Graph:
    return Graph(nodes=(Node(name=name, op="placeholder", role="input"),), outputs=(Output(value=Ref(name)),))


def event(index: int, stage: Stage, name: str, after: str = "", partition: int | None = None) -> PassEvent:
    return PassEvent(index=index, stage=stage, name=name, after=after, partition=partition)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole recording, but for its comparison."""
    writer = Writer(tmp_path / "net-fp16.qnndbg")
    writer.manifest(MANIFEST)
    first, second = writer.graph(graph("first")), writer.graph(graph("second"))
    for line in (
        event(0, "export", "", first),
        event(1, "export", "Decompose", second),
        event(2, "preprocess", "", first, partition=1),
        event(3, "transform", "", second),
        PassEvent(index=4, stage="transform", name="FoldQDQ", before=second, error="KeyError: 'val'"),
    ):
        writer.pass_event(line)
    for partition in (10, 2, 0):
        writer.qnn_graph(QnnGraph(method="forward", partition=partition, graph=first, ops=(), tensors=()))
    writer.qnn_graph(QnnGraph(method="encode", partition=3, graph=second, ops=(), tensors=()))
    writer.run(Run(runner="eager", results=(writer.tensor(np.arange(3.0)), None)))
    return writer.folder


def test_parts_are_read_back(folder: Path) -> None:
    recording = open_recording(str(folder))
    assert recording.manifest == MANIFEST
    assert [e.index for e in recording.passes] == [0, 1, 2, 3, 4]
    assert recording.graph(recording.passes[0].after) == graph("first")
    (tensor, missing) = recording.runs["eager"].results
    assert tensor is not None
    np.testing.assert_array_equal(recording.tensor(tensor), [0.0, 1.0, 2.0])
    assert (missing, recording.comparison()) == (None, None)


def test_partitions_are_in_the_order_of_their_numbers(folder: Path) -> None:
    order = [(g.method, g.partition) for g in open_recording(folder).qnn]
    assert order == [("encode", 3), ("forward", 0), ("forward", 2), ("forward", 10)]


@pytest.mark.parametrize(
    ("stage", "partition", "name"),
    [("export", None, "second"), ("preprocess", 1, "first"), ("transform", None, "second")],
)
def test_last_graph_of_a_stage(folder: Path, stage: str, partition: int | None, name: str) -> None:
    assert open_recording(folder).last_graph(stage, partition=partition) == graph(name)


def test_last_graph_of_a_stage_that_was_not_reached(folder: Path) -> None:
    recording = open_recording(folder)
    assert recording.last_graph("partition") is None
    assert recording.last_graph("preprocess") is None
    assert recording.last_graph("export", method="encode") is None


def test_first_graph_of_a_stage(folder: Path) -> None:
    recording = open_recording(folder)
    assert recording.first_graph("export") == graph("first")
    assert recording.first_graph("preprocess") == graph("first")
    assert (recording.first_graph("partition"), recording.first_graph("export", "encode")) == (None, None)


def given(name: str, method: str = "forward", sample: int = 0) -> Input:
    return Input(name=name, tensor=TensorRef("0" * 32, "float32", (3,)), method=method, sample=sample)


def test_inputs_are_those_of_one_sample_of_one_method(tmp_path: Path) -> None:
    inputs = (
        *(given("input 0", "encode"), given("input 1", "encode")),
        *(given("input 0"), given("input 0", sample=1)),
    )
    Writer(tmp_path).manifest(replace(MANIFEST, inputs=inputs))
    recording = open_recording(tmp_path)
    assert recording.methods == ("encode", "forward")
    assert recording.samples == (("encode", 0), ("forward", 0), ("forward", 1))
    assert recording.inputs("encode") == inputs[:2]
    assert (recording.inputs(), recording.inputs(sample=1)) == (inputs[2:3], inputs[3:])
    assert recording.inputs("decode") == recording.inputs("encode", 1) == ()


def test_runs_are_told_apart_by_method_and_sample(folder: Path) -> None:
    writer = Writer(folder)
    runs = [
        Run(runner="htp", method=method, sample=sample, problems={"n": f"{method}{sample}"})
        for method in ("forward", "encode")
        for sample in (0, 1)
    ]
    for run in runs:
        writer.run(run)
    recording = open_recording(folder)
    assert sorted(recording.runs) == ["eager", "htp", "htp.encode.0", "htp.encode.1", "htp.forward.1"]
    assert [recording.run("htp", run.method, run.sample) for run in runs] == runs
    assert recording.run("htp") == runs[0]
    assert (recording.run("htp", "decode"), recording.run("edge")) == (None, None)


def test_reading_changes_nothing(folder: Path) -> None:
    def state() -> dict[Path, tuple[int, bytes]]:
        return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.rglob("*") if p.is_file()}

    before = state()
    everything(open_recording(folder))
    assert state() == before


def everything(recording: Recording) -> None:
    """Load whatever the recording holds."""
    for digest in [e.after for e in recording.passes if e.after] + [g.graph for g in recording.qnn]:
        recording.graph(digest)
    for run in recording.runs.values():
        for ref in (*run.results, *(value.tensor for value in run.values)):
            if ref is not None:
                recording.tensor(ref)
    recording.comparison()


def test_recording_that_was_only_begun_can_be_read(tmp_path: Path) -> None:
    Writer(tmp_path).manifest(MANIFEST)
    recording = open_recording(tmp_path)
    assert (recording.passes, recording.qnn, recording.runs) == ((), (), {})
    assert recording.comparison() is None
    assert recording.last_graph("export") is None


def test_missing_recording(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="there is no recording") as caught:
        open_recording(tmp_path / "none.qnndbg")
    assert caught.value.hint.startswith("make one with: qnndbg record")


def test_file_and_foreign_folder_are_no_recordings(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("{}")
    (tmp_path / "folder" / "manifest.json").mkdir(parents=True)
    for path in (file, tmp_path, tmp_path / "folder"):
        with pytest.raises(RecordingError, match=r"is not a recording: it has no manifest\.json"):
            open_recording(path)


def test_recording_of_a_newer_schema(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b'{"schema": 999, "target": 1}')
    with pytest.raises(SchemaError):
        open_recording(folder)


@pytest.mark.parametrize(
    ("lines", "indexes"),
    [
        (b'{"index":0,"stage":"export","name":""}\n', [0]),
        (b'{"index":0,"stage":"export","name":""}\n{"index":1,"sta', [0]),
        (b'{"index":0,"stage":"export","name":""}\n{"index":1,"stage":"export","name":""}', [0]),
        (b'{"index":0', []),
        (b"", []),
        (b"\n\n", []),
    ],
)
def test_line_that_was_cut_off_is_left_out(folder: Path, lines: bytes, indexes: list[int]) -> None:
    (folder / "passes.jsonl").write_bytes(lines)
    assert [e.index for e in open_recording(folder).passes] == indexes


@pytest.mark.parametrize(
    "line",
    [
        b'{"index":0,"sta',
        b'{"index":"0","stage":"export","name":""}',
        b'{"index":0,"stage":"lunch","name":""}',
    ],
)
def test_line_that_is_damaged_and_not_the_last_is_refused(folder: Path, line: bytes) -> None:
    (folder / "passes.jsonl").write_bytes(line + b'\n{"index":1,"stage":"export","name":""}\n')
    with pytest.raises(RecordingError, match=r"passes\.jsonl"):
        _ = open_recording(folder).passes


@pytest.mark.parametrize("digest", ["../manifest", "", "../" * 8 + "etc/passwd", "0" * 31, "0" * 32 + "\n"])
def test_path_for_a_graph_digest_is_refused(folder: Path, digest: str) -> None:
    with pytest.raises(RecordingError, match="is no graph digest"):
        open_recording(folder).graph(digest)


def test_missing_graph_is_refused(folder: Path) -> None:
    recording = open_recording(folder)
    shutil.rmtree(folder / "graphs")
    with pytest.raises(RecordingError, match="cannot be unpacked"):
        recording.last_graph("export")


def test_graph_that_is_something_else_is_refused(folder: Path) -> None:
    recording = open_recording(folder)
    digest = recording.passes[0].after
    (folder / "graphs" / f"{digest}.json.gz").write_bytes(gzip.compress(b'{"nodes": 1}'))
    with pytest.raises(RecordingError, match=f"graph {digest} of .* does not hold"):
        recording.graph(digest)


def test_arguments_nested_too_deeply_are_refused(folder: Path) -> None:
    recording = open_recording(folder)
    digest = recording.passes[0].after
    deep = b'["seq",[' * 50_000 + b"]]" * 50_000
    packed = schema.gzipped(b'{"nodes":[],"outputs":[{"value":' + deep + b"}]}")
    (folder / "graphs" / f"{digest}.json.gz").write_bytes(packed)
    with pytest.raises(RecordingError, match="does not hold"):
        recording.graph(digest)


def test_arguments_nested_as_deeply_as_they_may_be_have_a_digest() -> None:
    arg: Seq | int = 1
    for _ in range(100):
        arg = Seq((arg,))
    nested = Graph(nodes=(Node(name="n", op="output", args=(arg,)),), outputs=())
    assert schema.decode(schema.encode(nested), Graph, "a graph") == nested
    assert schema.DIGEST.fullmatch(schema.structure_digest(nested))


@pytest.mark.parametrize("part", ["runs/eager.json", "qnn/forward-2.json", "comparison.json"])
@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"{", b'{"id": 1}'])
def test_damaged_part_is_refused_by_name_and_spares_the_others(folder: Path, part: str, data: bytes) -> None:
    (folder / part).write_bytes(data)
    recording = open_recording(folder)
    assert len(recording.passes) == 5
    with pytest.raises(RecordingError, match=Path(part).name):
        everything(recording)


@pytest.mark.parametrize("part", ["passes.jsonl", "runs/eager.json", "qnn/forward-2.json"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_would_never_end_is_not_read(folder: Path, part: str, kind: str) -> None:
    place = folder / part
    place.unlink()
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/zero")
    with pytest.raises(RecordingError, match=f"{place.name} is no regular file"):
        everything(open_recording(folder))


def test_graph_and_tensor_that_would_never_end_are_not_read(folder: Path) -> None:
    recording = open_recording(folder)
    tensor = recording.runs["eager"].results[0]
    assert tensor is not None
    for kind in ("graphs", "tensors"):
        for place in (folder / kind).iterdir():
            place.unlink()
            os.mkfifo(place)
    with pytest.raises(RecordingError, match="is no regular file"):
        recording.graph(recording.passes[0].after)
    with pytest.raises(RecordingError, match="is no regular file"):
        recording.tensor(tensor)


@pytest.mark.parametrize("version", [0, -1])
def test_schema_that_never_was_is_refused(folder: Path, version: int) -> None:
    place = folder / "manifest.json"
    place.write_text(place.read_text().replace(f'"schema": {MANIFEST.schema}', f'"schema": {version}'))
    with pytest.raises(RecordingError, match=r"`int` >= 1 - at `\$\.schema`"):
        open_recording(folder)


def test_part_that_cannot_be_read_is_refused(folder: Path) -> None:
    (folder / "passes.jsonl").unlink()
    (folder / "passes.jsonl").mkdir()
    with pytest.raises(RecordingError, match=r"passes\.jsonl cannot be read: Is a directory"):
        _ = open_recording(folder).passes

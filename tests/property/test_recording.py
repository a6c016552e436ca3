"""Random tensors and parts survive being stored; random damage is refused and nothing else."""

from __future__ import annotations

import gzip
import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from qnndbg.errors import RecordingError
from qnndbg.model.graph import Graph, Node, TensorRef
from qnndbg.model.recording import Environment, Manifest, PassEvent, Run, Value
from qnndbg.recording import schema
from qnndbg.recording.blobs import STORED_AS, Blobs
from qnndbg.recording.store import open_recording
from qnndbg.recording.writer import Writer

DTYPES = st.sampled_from(
    [bool, np.uint8, np.int8, np.uint16, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64]
) | st.just(np.complex64)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
ARRAYS = st.tuples(DTYPES, SHAPES).flatmap(lambda drawn: hnp.arrays(*drawn))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
MANIFEST = Manifest(
    target="t",
    precision="fp16",
    soc="SM8650",
    environment=Environment(qnndbg="0", python="3", host="here"),
    complete=True,
)


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for one example, since a fixture would serve all of a test's."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@given(ARRAYS)
def test_tensors_come_back_bit_by_bit(array: np.ndarray) -> None:
    with folder() as place:
        ref = Blobs(place).put(array)
        found = Blobs(place).get(ref)
        assert ref == TensorRef(ref.digest, str(array.dtype), array.shape)
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert found.tobytes() == array.tobytes()  # NaN payloads and signs of zeros too


@pytest.mark.parametrize("dtype", STORED_AS)
@given(data=st.data())
def test_bits_of_dtypes_that_numpy_lacks_come_back(dtype: str, data: st.DataObject) -> None:
    bits = data.draw(hnp.arrays(np.dtype(STORED_AS[dtype]), SHAPES))
    with folder() as place:
        blobs = Blobs(place)
        ref = blobs.put(bits, dtype)
        assert (ref.dtype, ref.shape) == (dtype, bits.shape)
        assert blobs.get(ref).tobytes() == bits.tobytes()
        assert ref.digest != blobs.put(bits).digest


@given(ARRAYS, ARRAYS)
def test_two_tensors_share_a_file_exactly_if_they_are_the_same(left: np.ndarray, right: np.ndarray) -> None:
    def identity(array: np.ndarray) -> tuple[object, ...]:
        return array.dtype, array.shape, array.tobytes()

    with folder() as place:
        blobs = Blobs(place)
        assert (blobs.put(left) == blobs.put(right)) == (identity(left) == identity(right))
        assert len(list(place.iterdir())) == (1 if identity(left) == identity(right) else 2)


@given(hnp.arrays(np.float32, hnp.array_shapes(min_dims=1, max_dims=3, max_side=4)), st.data())
def test_order_in_memory_does_not_count(array: np.ndarray, data: st.DataObject) -> None:
    axes = data.draw(st.permutations(range(array.ndim)))
    view = array.transpose(axes)[:: data.draw(st.sampled_from([1, -1, 2]))]
    with folder() as place:
        blobs = Blobs(place)
        assert blobs.put(view) == blobs.put(np.frombuffer(view.tobytes(), np.float32).reshape(view.shape))


EVENTS = st.lists(
    st.builds(
        PassEvent,
        index=st.integers(0, 999),
        stage=st.sampled_from(["annotation", "export", "transform", "preprocess"]),
        name=TEXT,
        method=TEXT,
        partition=st.none() | st.integers(0, 9),
        changed=st.booleans(),
        claimed_modified=st.none() | st.booleans(),
        seconds=st.floats(0, 1e6),
        error=TEXT,
    ),
    max_size=4,
)


@given(EVENTS, st.data())
def test_pass_events_survive_as_far_as_they_were_written(
    events: list[PassEvent], data: st.DataObject
) -> None:
    with folder() as place:
        writer = Writer(place)
        writer.manifest(MANIFEST)
        for event in events:
            writer.pass_event(event)
        assert open_recording(place).passes == tuple(events)
        if not events:
            return
        path = place / "passes.jsonl"
        whole = path.read_bytes()
        cut = data.draw(st.integers(0, len(whole)))
        path.write_bytes(whole[:cut])
        assert open_recording(place).passes == tuple(events)[: whole[:cut].count(b"\n")]


@given(
    st.dictionaries(TEXT, TEXT, max_size=3),
    st.lists(st.none() | ARRAYS, max_size=3),
    st.lists(st.tuples(TEXT, ARRAYS), max_size=2),
)
def test_runs_come_back(
    problems: dict[str, str], results: list[np.ndarray | None], values: list[tuple[str, np.ndarray]]
) -> None:
    with folder() as place:
        writer = Writer(place)
        writer.manifest(MANIFEST)
        run = Run(
            runner="local",
            results=tuple(None if r is None else writer.tensor(r) for r in results),
            values=tuple(Value(name=n, partition=0, tensor=writer.tensor(a)) for n, a in values),
            problems=problems,
        )
        writer.run(run)
        recording = open_recording(place)
        assert recording.runs == {"local": run}
        for ref, array in zip(run.results, results, strict=True):
            assert (ref is None) == (array is None)
            if ref is not None and array is not None:
                assert recording.tensor(ref).tobytes() == array.tobytes()


@given(st.binary(max_size=60))
def test_any_bytes_are_no_manifest(data: bytes) -> None:
    with pytest.raises(RecordingError):
        schema.decode_manifest(data)


def npy(values: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


NODES = tuple(Node(name=f"n{i}", op="call_function", target="aten.relu.default") for i in range(9))
PACKED = gzip.compress(schema.encode(Graph(nodes=NODES, outputs=())), mtime=0)
VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)
NPY = npy(VALUES)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """A file with some bytes overwritten, and perhaps its end lost."""
    data = bytearray(whole)
    for position in draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4)):
        data[position] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.just(len(whole)) | st.integers(0, len(whole)))])


@given(damaged(PACKED))
@example(PACKED[:10] + b"\xff" + PACKED[11:])
def test_damaged_graph_is_refused_or_still_a_graph(data: bytes) -> None:
    with folder() as place:
        path = place / "graph.json.gz"
        path.write_bytes(data)
        try:
            assert isinstance(schema.decode(schema.read_gzip(path), Graph, "a graph"), Graph)
        except RecordingError:
            return


@given(damaged(NPY))
@example(NPY.replace(b"}", b" "))
def test_damaged_tensor_is_refused_or_still_a_tensor(data: bytes) -> None:
    ref = TensorRef("0" * 32, "float32", (2, 3))
    with folder() as place:
        (place / f"{ref.digest}.npy").write_bytes(data)
        try:
            found = Blobs(place).get(ref)
        except RecordingError:
            return
        assert (str(found.dtype), found.shape) == (ref.dtype, ref.shape)

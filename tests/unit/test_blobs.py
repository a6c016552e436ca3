"""Tensors by content; files that are damaged or hostile are refused and never executed."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from qnndbg.errors import RecordingError
from qnndbg.model.graph import TensorRef
from qnndbg.recording.blobs import Blobs

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path / "tensors")


def files(blobs: Blobs) -> list[str]:
    return sorted(path.name for path in blobs.folder.iterdir())


def npy(header: str, data: bytes = bytes(24)) -> bytes:
    """A version 1.0 file of a header that numpy did not write."""
    text = header.encode("latin1")
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def saved(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def test_equal_tensors_are_one_plain_npy_file(blobs: Blobs) -> None:
    ref = blobs.put(VALUES)
    assert blobs.put(VALUES.copy()) == ref == TensorRef(ref.digest, "float32", (2, 3))
    assert files(blobs) == [f"{ref.digest}.npy"]
    np.testing.assert_array_equal(np.load(blobs.folder / f"{ref.digest}.npy", allow_pickle=False), VALUES)


def test_same_bytes_of_another_dtype_or_shape_are_another_tensor(blobs: Blobs) -> None:
    bits = np.array([0x3F80, 0x4000], np.uint16)
    refs = {
        blobs.put(bits),
        blobs.put(bits, "bfloat16"),
        blobs.put(bits.view(np.float16)),
        blobs.put(bits.reshape(2, 1)),
        blobs.put(bits.reshape(1, 2)),
    }
    assert len({ref.digest for ref in refs}) == 5


def test_bits_of_a_dtype_that_numpy_lacks_come_back(blobs: Blobs) -> None:
    bits = np.array([0x3F80, 0x7FC1], np.uint16)
    ref = blobs.put(bits, "bfloat16")
    assert (ref.dtype, ref.shape) == ("bfloat16", (2,))
    np.testing.assert_array_equal(blobs.get(ref), bits)


@pytest.mark.parametrize("view", [VALUES.T, VALUES[:, ::2], VALUES[::-1], np.asfortranarray(VALUES)])
def test_layout_in_memory_does_not_count(blobs: Blobs, view: np.ndarray) -> None:
    assert blobs.put(view) == blobs.put(np.array(view.tolist(), np.float32))
    np.testing.assert_array_equal(blobs.get(blobs.put(view)), view)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1)])
def test_unusual_shapes_come_back(blobs: Blobs, shape: tuple[int, ...]) -> None:
    values = np.ones(shape, np.int64)
    found = blobs.get(blobs.put(values))
    assert (found.shape, str(found.dtype)) == (shape, "int64")
    np.testing.assert_array_equal(found, values)


def test_tensors_are_mapped_and_cannot_be_written_to(blobs: Blobs) -> None:
    found = blobs.get(blobs.put(VALUES))
    assert isinstance(found, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 1


@pytest.mark.parametrize(
    "digest", ["../../secret", "/etc/passwd", "", "0" * 31 + "/", "0" * 32 + "\n", "g" * 32]
)
def test_path_for_a_digest_is_refused(blobs: Blobs, digest: str) -> None:
    (blobs.folder.parent / "secret.npy").write_bytes(saved(VALUES))
    with pytest.raises(RecordingError, match="is no tensor digest"):
        blobs.get(TensorRef(digest, "float32", (2, 3)))


def test_missing_tensor_is_refused(blobs: Blobs) -> None:
    with pytest.raises(RecordingError, match=f"tensor {'0' * 32} cannot be read") as caught:
        blobs.get(TensorRef("0" * 32, "float32", (2, 3)))
    assert "record again" in caught.value.hint


@pytest.mark.parametrize(
    "claimed",
    [("float32", (3, 2)), ("float32", (6,)), ("int32", (2, 3)), ("bfloat16", (2, 3)), ("float32", ())],
)
def test_tensor_that_is_not_what_its_reference_says_is_refused(
    blobs: Blobs, claimed: tuple[str, tuple[int, ...]]
) -> None:
    ref = blobs.put(VALUES)
    with pytest.raises(RecordingError, match=ref.digest):
        blobs.get(TensorRef(ref.digest, *claimed))


class Bomb:
    """What unpickling would do."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (pytest.fail, ("a pickle was executed",))


REFUSED = {
    "empty": b"",
    "pickle": pickle.dumps(Bomb()),
    "objects": saved(np.array([Bomb()], dtype=object)),
    "cut off in the magic": saved(VALUES)[:4],
    "cut off in the header": saved(VALUES)[:40],
    "cut off in the data": saved(VALUES)[:-1],
    "unknown version": b"\x93NUMPY\x09\x00" + bytes(80),
    "negative shape": npy("{'descr':'<f4','fortran_order':False,'shape':(-2,-3)}\n"),
    "no dtype": npy("{'descr':'nonsense','fortran_order':False,'shape':(2,3)}\n"),
    "records": npy("{'descr':[('a','<f4')],'fortran_order':False,'shape':(2,3)}\n"),
    "a header of code": npy("__import__('os').system('false')\n"),
}
LET_THROUGH = {
    "unbalanced header": npy("{\n"),
    "nested header": npy("-" * 9000 + "1\n"),
    "unhashable key": npy("{[]: 1}\n"),
    "shape beyond 64 bits": npy("{'descr':'<f4','fortran_order':False,'shape':(99999999999999999999,)}\n"),
}


@pytest.mark.parametrize("shape", [(2, 3), (0,)])
@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_damaged_file_is_refused(blobs: Blobs, data: bytes, shape: tuple[int, ...]) -> None:
    ref = blobs.put(VALUES)
    (blobs.folder / f"{ref.digest}.npy").write_bytes(data)
    with pytest.raises(RecordingError, match=ref.digest):
        blobs.get(TensorRef(ref.digest, "float32", shape))


@pytest.mark.parametrize("data", LET_THROUGH.values(), ids=LET_THROUGH)
def test_header_that_trips_numpy_is_refused(blobs: Blobs, data: bytes) -> None:
    ref = blobs.put(VALUES)
    (blobs.folder / f"{ref.digest}.npy").write_bytes(data)
    with pytest.raises(RecordingError):
        blobs.get(ref)


HUGE = npy("{'descr':'<f4','fortran_order':False,'shape':(100000000000000,)}\n")


def test_file_shorter_than_its_header_says_is_refused(blobs: Blobs) -> None:
    ref = blobs.put(VALUES)
    (blobs.folder / f"{ref.digest}.npy").write_bytes(HUGE)
    with pytest.raises(RecordingError, match=ref.digest):
        blobs.get(ref)


def test_huge_file_behind_an_empty_tensor_is_refused(blobs: Blobs) -> None:
    ref = blobs.put(np.empty((0,), np.float32))
    (blobs.folder / f"{ref.digest}.npy").write_bytes(HUGE)
    with pytest.raises(RecordingError):
        blobs.get(ref)


def test_archive_in_place_of_a_tensor_is_refused(blobs: Blobs) -> None:
    ref = blobs.put(VALUES)
    with zipfile.ZipFile(blobs.folder / f"{ref.digest}.npy", "w") as archive:
        archive.writestr("a.npy", saved(VALUES))
    with pytest.raises(RecordingError):
        blobs.get(ref)

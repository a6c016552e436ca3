"""Names of recordings, of those beside them, and of what is not finished yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from qnndbg.recording.place import numbered, partial, with_suffix


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("net", "net.qnndbg"),
        ("net.qnndbg", "net.qnndbg"),
        ("a/b/net", "a/b/net.qnndbg"),
        ("net.v2", "net.v2.qnndbg"),
        ("../net", "../net.qnndbg"),
    ],
)
def test_all_recordings_have_the_suffix(given: str, place: str) -> None:
    assert with_suffix(Path(given)) == Path(place)


@pytest.mark.parametrize(
    ("number", "name"), [(0, "net.v2.qnndbg"), (1, "net.v2-2.qnndbg"), (9, "net.v2-10.qnndbg")]
)
def test_the_first_has_the_plain_name_and_others_are_counted(number: int, name: str) -> None:
    assert numbered(Path("a/net.v2.qnndbg"), number) == Path("a", name)


def test_what_grows_is_hidden_beside_its_place() -> None:
    assert partial(Path("a/net.qnndbg")) == Path("a/.net.qnndbg.partial")
    assert len({partial(numbered(Path("net.qnndbg"), n)) for n in range(3)}) == 3

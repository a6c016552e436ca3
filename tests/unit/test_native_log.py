"""What is quoted of a worker's log."""

from __future__ import annotations

from pathlib import Path

import pytest

from qnndbg.execute.native_log import last_words

WARNING = (
    "/site-packages/torch/export/unflatten.py:982: UserWarning: Attempted to insert a failing get_attr Node\n"
    '  raise_if_failed(spec, "error: no such attribute")\n'
)
NATIVE = "[ERROR] [Qnn ExecuTorch]: graph finalize failed\n"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("one\nlast\n", "last"),
        ("one\nterminate called\nlast\n", "terminate called"),
        (f"compiling\n{WARNING}", "compiling"),
        (f"{NATIVE}{WARNING}", NATIVE.strip()),
        (f"{WARNING}{NATIVE}", NATIVE.strip()),
        (f"{WARNING}{WARNING}{NATIVE}", NATIVE.strip()),
        ("x.py:3: DeprecationWarning: this will fail\nnot indented: an error\n", "not indented: an error"),
        (WARNING, ""),
        ("", ""),
    ],
)
def test_warnings_of_python_and_their_source_lines_are_no_last_words(
    log: str, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "worker.log"
    file.write_text(log, encoding="utf-8")
    assert last_words(file) == words


def test_only_what_this_worker_wrote_is_quoted(tmp_path: Path) -> None:
    file = tmp_path / "worker.log"
    file.write_text(f"{NATIVE}last\n", encoding="utf-8")
    assert last_words(file, len(NATIVE)) == "last"

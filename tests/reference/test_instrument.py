"""Hooks are there for the time of a block, see lowerings to QNN only, and go without a trace."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.exir import to_edge
from torch import nn

from qnndbg.capture.recorder import Recorder
from qnndbg.errors import LoweringError
from tests.reference.conftest import Store

pytestmark = pytest.mark.usefixtures("sdk_root")


@pytest.fixture
def session(store: Store) -> Any:
    from qnndbg.capture.session import Session

    return Session(lambda _number: Recorder(store.writer))


def state() -> list[object]:
    """All that hooks are put into."""
    from executorch.exir.backend import backend_api

    from qnndbg.capture.instrument import _DISPATCHED, _HOOKS

    return [
        *(owner.__dict__[name] for owner, name, _ in _HOOKS),
        *(backend_api.to_backend.registry[kind] for kind, _ in _DISPATCHED),
    ]


@pytest.mark.parametrize("fails", [False, True])
def test_hooks_are_gone_behind_the_block(session: Any, fails: bool) -> None:
    from qnndbg.capture.instrument import instrumented

    before = state()
    try:
        with instrumented(session):
            within = state()
            if fails:
                raise LookupError
    except LookupError:
        assert fails
    assert [one is other for one, other in zip(within, before, strict=True)] == [False] * len(before)
    assert [one is other for one, other in zip(state(), before, strict=True)] == [True] * len(before)


def test_what_goes_to_no_qnn_backend_is_none_of_our_business(session: Any, store: Store) -> None:
    from qnndbg.capture.instrument import instrumented

    program = torch.export.export(nn.Sequential(nn.Linear(4, 4), nn.SiLU()), (torch.ones(1, 4),), strict=True)
    plain = to_edge(program).to_executorch().buffer
    with instrumented(session):
        assert to_edge(program).to_executorch().buffer == plain
    assert session.lowerings == []
    assert not (store.writer.folder / "passes.jsonl").exists()


def test_version_without_a_hook_is_refused_by_its_name(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import executorch.exir.program._program as exir_program

    from qnndbg.capture.instrument import instrumented

    before = state()
    with monkeypatch.context() as patch:
        patch.delattr(exir_program, "_to_edge")
        with pytest.raises(LoweringError, match=r"_program\._to_edge") as caught, instrumented(session):
            pytest.fail("it was not refused")
    assert "pip install executorch==" in caught.value.hint
    assert [one is other for one, other in zip(state(), before, strict=True)] == [True] * len(before)

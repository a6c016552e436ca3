"""Makes a real pass of the lowering do damage beside its work, in this process from now on.

A pipeline makes its passes anew for each graph. The one that is to go wrong is wrapped where the pipeline
has made it, so that it runs, and is recorded, as every other does; and it does the same damage to the same
graph each time, since the build with the dump goes through it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Literal

from executorch.backends.qualcomm._passes import qnn_pass_manager
from torch.fx.passes.infra.pass_base import PassResult

from benchmarks.blame.answer import Answer
from benchmarks.blame.damages import Damage, damages_of, op_name

Pipeline = Literal["annotation", "export", "to_edge", "preprocess"]
PIPELINES: tuple[Pipeline, ...] = ("annotation", "export", "to_edge", "preprocess")
UNTOUCHABLE = frozenset({"ResolveDebugHandle"})
"""It only numbers nodes; what it damaged would have no handle."""


def break_pass(pipeline: Pipeline, random: Random, plant: Callable[[Answer], None]) -> None:
    """Let one pass of a pipeline do damage.

    Args:
        pipeline: whose pass; which one is drawn.
        random: draws pass, damage and node.
        plant: told the answer once the damage is done.
    """
    seed = random.randrange(2**31)
    manager = qnn_pass_manager.QnnPassManager
    if pipeline == "to_edge":
        made = manager.get_to_edge_transform_passes

        def get(self: Any, exported_program: Any, *args: Any, **kwargs: Any) -> Any:
            passes = made(self, exported_program, *args, **kwargs)
            _arm(passes, _State(pipeline, exported_program, Random(seed), plant))
            return passes

        manager.get_to_edge_transform_passes = get
        return
    instantiate = manager._instantiate_passes
    name = f"transform_for_{pipeline}_pipeline"
    transform = getattr(manager, name)
    current: list[Any] = []

    def armed(self: Any, *args: Any, **kwargs: Any) -> Any:
        instantiate(self, *args, **kwargs)
        if current:
            _arm(self.passes, _State(pipeline, current[0], Random(seed), plant))

    def transformed(self: Any, program: Any, *args: Any, **kwargs: Any) -> Any:
        with _within(current, program):
            return transform(self, program, *args, **kwargs)

    manager._instantiate_passes = armed
    setattr(manager, name, transformed)


@contextmanager
def _within(current: list[Any], program: Any) -> Iterator[None]:
    current.append(program)
    try:
        yield
    finally:
        current.clear()


def _arm(passes: list[Any], state: _State) -> None:
    """From a drawn pass on, the first whose graph a damage fits does it."""
    able = [p for p in passes if type(p).__name__ not in UNTOUCHABLE and hasattr(p, "call")]
    first = state.random.randrange(len(able))
    for wrong in able[first:] + able[:first]:
        wrong.call = _Damaging(wrong.call, type(wrong).__name__, state, late=wrong in able[:first])


class _State:
    """What the passes of one run of a pipeline share."""

    def __init__(
        self, pipeline: Pipeline, program: Any, random: Random, plant: Callable[[Answer], None]
    ) -> None:
        self.pipeline, self.program, self.random, self.plant = pipeline, program, random, plant
        self.done = False


class _Damaging:
    """A pass's work, and the damage if none was done yet."""

    def __init__(self, work: Callable[[Any], Any], name: str, state: _State, *, late: bool) -> None:
        self.work, self.name, self.state, self.late = work, name, state, late

    def __call__(self, graph_module: Any) -> Any:
        result = self.work(graph_module)
        graph_module = result.graph_module
        if self.state.done or self.late:
            return result
        found = [
            (damage, node)
            for damage in damages_of(graph_module, self.state.program, self.state.pipeline)
            for node in damage.nodes
        ]
        if not found:
            return result
        damage, node = self._drawn(found)
        self.state.done = True
        op, held = op_name(node), [] if node.op == "call_function" else [f"names:{node.name}"]
        damage.do(node)
        graph_module.recompile()
        self.state.plant(
            Answer(
                kinds=("pass",),
                culprits=(f"pass:{self.name}",),
                touched=(*(f"op:{name}" for name in (op, *damage.also)), *held),
                note=f"{damage.name} of {node.name}",
            )
        )
        return PassResult(graph_module, True)

    def _drawn(self, found: list[tuple[Damage, Any]]) -> tuple[Damage, Any]:
        """Each kind of damage is as likely, however many nodes it fits."""
        name = self.state.random.choice(sorted({damage.name for damage, _ in found}))
        return self.state.random.choice([pair for pair in found if pair[0].name == name])

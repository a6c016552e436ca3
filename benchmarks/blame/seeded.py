"""Faults with known answers, seeded into random small nets: what there is, and which of it a seed draws.

A case's name says all of it, so that ``qnndbg record`` takes it as well and one case can be looked at alone::

    qnndbg record benchmarks/blame/seeded.py:overflow_fp16_17 --precision fp16

What was done, and so the answer, is known only where it is done: a case writes it into a folder that the
environment names, if it does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import msgspec

from benchmarks.blame.answer import Answer
from qnndbg.model.target import Target

ANSWERS = "QNNDBG_ANSWERS"
"""Names the folder that answers go to."""
COUNT = 120
"""Cases of a usual run."""
Make = Callable[[Random, str, Callable[[Answer], None]], Target]

WEIGHTS: dict[tuple[str, str], int] = {
    ("clean", "fp16"): 7,
    ("clean", "8a8w"): 7,
    ("clean", "16a8w"): 7,
    ("pass_annotation", "8a8w"): 5,
    ("pass_annotation", "16a8w"): 4,
    ("pass_export", "fp16"): 5,
    ("pass_export", "8a8w"): 4,
    ("pass_to_edge", "fp16"): 5,
    ("pass_to_edge", "8a8w"): 4,
    ("pass_preprocess", "fp16"): 4,
    ("pass_preprocess", "8a8w"): 5,
    ("wrong_range", "8a8w"): 12,
    ("uneven_weights", "16a8w"): 6,
    ("outlier_channel", "8a8w"): 6,
    ("overflow", "fp16"): 5,
    ("overflow_matmul", "fp16"): 3,
    ("flushed_op", "fp16"): 3,
    ("flushed_constant", "fp16"): 3,
    ("flushed_input", "fp16"): 2,
    ("large_input", "fp16"): 2,
    ("coarse_op", "16a8w"): 5,
    ("pad_outside", "8a8w"): 4,
    ("negative_index", "8a8w"): 3,
    ("argmin_pairs", "fp16"): 3,
    ("index_output", "fp16"): 2,
    ("channels_last", "fp16"): 2,
    ("channels_last", "8a8w"): 1,
    ("wide_integers", "fp16"): 1,
}
"""Family and precision to how many of them a usual run has."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A case before it is made."""

    name: str
    precision: str


def plan(seed: int, count: int) -> list[Spec]:
    """The cases of a seed: the families in turn, each as often as its weight says.

    Args:
        seed: numbers the cases, so that no two seeds share one.
        count: of cases; fewer than all leave out the last turns of the common families.
    """
    turns = [
        (turn / weight, family, precision)
        for (family, precision), weight in WEIGHTS.items()
        for turn in range(-(-count * weight // sum(WEIGHTS.values())))
    ]
    drawn = sorted(turns, key=lambda turn: turn[0])[:count]
    return [
        Spec(f"{family}_{precision}_{seed * 1000 + number}", precision)
        for number, (_, family, precision) in enumerate(drawn)
    ]


def family_of(name: str) -> str:
    """``overflow`` of ``overflow_fp16_17``."""
    return name.rsplit("_", 2)[0]


def read_answer(folder: Path, name: str) -> Answer | None:
    """What a case has left; None if it did not come to the place where its fault is done."""
    path = folder / f"{name}.answer.json"
    return msgspec.json.decode(path.read_bytes(), type=Answer) if path.exists() else None


def _clean(random: Random, precision: str, plant: Callable[[Answer], None]) -> Target:
    from benchmarks.blame import nets
    from benchmarks.blame.quantiser_faults import sound_quantizer

    net = nets.random_net(random)
    inputs = nets.example_inputs(random, net)
    plant(Answer(kinds=("clean",), note="nothing"))
    quantizer = None if precision == "fp16" else sound_quantizer(precision)
    return Target(net, inputs[-1], inputs, quantizer=quantizer)


def _wrong_pass(pipeline: str, random: Random, precision: str, plant: Callable[[Answer], None]) -> Target:
    from benchmarks.blame.pass_faults import break_pass

    target = _clean(random, precision, lambda _: None)
    break_pass(pipeline, random, plant)  # type: ignore[arg-type]
    return target


def _maker(family: str) -> Make:
    """The maker of a family; torch is loaded only where a case is made."""
    if family == "clean":
        return _clean
    if family.startswith("pass_"):
        return partial(_wrong_pass, family.removeprefix("pass_"))
    from benchmarks.blame import backend_faults, quantiser_faults

    module = quantiser_faults if hasattr(quantiser_faults, family) else backend_faults
    make: Make = getattr(module, family)
    return make


def _target(name: str) -> Target:
    family, precision, number = name.rsplit("_", 2)

    def plant(answer: Answer) -> None:
        if ANSWERS in os.environ:
            path = Path(os.environ[ANSWERS]) / f"{name}.answer.json"
            path.write_bytes(msgspec.json.encode(answer))

    return _maker(family)(Random(int(number)), precision, plant)


def __getattr__(name: str) -> Callable[[], Target]:
    """The factory of the case of that name."""
    family, _, rest = name.rpartition("_")
    if not rest.isdigit() or tuple(family.rsplit("_", 1)) not in WEIGHTS:
        raise AttributeError(name)
    return partial(_target, name)


def families() -> Iterator[str]:
    """All families."""
    yield from sorted({family for family, _ in WEIGHTS})

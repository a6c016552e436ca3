"""The local reference: each op on the CPU, from the values that the HTP gave to that op on the chip.

What an op read is not always what was dumped. Where the HTP fuses two ops it neither rounds nor clips in
between; a half float beyond 65504 is read in three ways; and one may be dumped before it is rounded. So
there are several readings of a dump, and for each value the one counts that comes closest to what the HTP
made of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import torch

from qnndbg.execute.effect import like
from qnndbg.execute.encoding import dequantise, fake_quantise, step_of
from qnndbg.execute.noise import (
    FLOAT32,
    MOVES,
    ROUNDINGS,
    Floor,
    Operand,
    floor_of,
    half_of,
    kind_of,
    perturbed,
    rms,
    ulp16,
)
from qnndbg.execute.program import Place, Program
from qnndbg.execute.reference import Computed
from qnndbg.model.graph import Arg, Node, QuantParams, Ref, Seq
from qnndbg.model.limits import FP16_MAX, FP16_OVERFLOW

Reading = Callable[[torch.Tensor, Computed], torch.Tensor]
"""From a dumped value and what the CPU computed there to what the next op is taken to have read."""

CLEARLY = 0.5
"""A reading other than the plain one is believed where it leaves less than this share of the error."""
SEED = 20_011


@dataclass(frozen=True, slots=True)
class Taps:
    """What the HTP dumped, as real numbers in stored layout."""

    values: Mapping[Place, torch.Tensor]
    encodings: Mapping[Place, QuantParams]
    half: bool
    """Floats are half floats on the HTP, those that go into a delegate too."""
    constants: Mapping[Place, torch.Tensor] = field(default_factory=dict)
    """What QNN was given in place of constants, as real numbers, where that is something else."""
    folded: Set[Place] = frozenset()
    """The constants that QNN has no tensor of, as builders only make others from them."""


@dataclass(slots=True)
class Local:
    """Every value as the CPU computes it from the HTP's inputs of that op."""

    values: dict[Place, torch.Tensor] = field(default_factory=dict)
    floors: dict[Place, Floor] = field(default_factory=dict)
    """What rounding explains; see :mod:`qnndbg.execute.noise`."""
    read: dict[Place, torch.Tensor] = field(default_factory=dict)
    """What the users of each value read, if that is not what was dumped."""
    held: dict[Place, torch.Tensor] = field(default_factory=dict)
    """Inputs and constants of the delegates as the HTP holds them, where it cannot hold them as they are."""
    inputs: dict[Place, torch.Tensor] = field(default_factory=dict)
    """Inputs of the delegates as they come in."""
    unrounded: dict[Place, torch.Tensor] = field(default_factory=dict)
    """What the CPU computes outside of the delegates, where the program leaves out an encoding's rounding."""
    results: list[object] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


def evaluate_locally(program: Program, taps: Taps) -> Local:
    """Evaluate each op from the HTP's values; where none was dumped, from what the CPU computes."""
    walks = _walks(program, taps)
    plain = walks[0]
    local = Local(
        dict(plain.rounded),
        held=plain.held,
        inputs=plain.inputs,
        unrounded=plain.unrounded,
        results=next(walk for walk in walks if walk.reading is _plain).results,
        problems=plain.problems,
    )
    local.values |= plain.given
    local.floors |= {place: _held_floor(value, half=taps.half) for place, value in plain.given.items()}
    chosen: dict[Place, _Walk] = {}
    for place, tap in taps.values.items():
        best = min(walks, key=lambda walk: distance(walk.rounded.get(place), tap))
        if distance(best.rounded.get(place), tap) < CLEARLY * distance(plain.rounded.get(place), tap):
            chosen[place] = best
            local.values[place] = best.rounded[place]
    local.read = _read_by_users(program, chosen, plain)
    noisy = _Walk(program, taps, _plain, noisy=True)
    nodes = _nodes_of(program)
    for place, node in plain.nodes.items():
        if place in noisy.exact:
            local.floors[place] = floor_of(
                node,
                plain.exact[place],
                noisy.exact[place],
                _unit(place, node, taps),
                half=_in_half(place, node, taps),
                operands=_operands(place, node, nodes, taps),
            )
    return local


def _nodes_of(program: Program) -> dict[tuple[int | None, str], Node]:
    graphs = [(None, program.graph), *program.partitions.items()]
    return {(number, node.name): node for number, graph in graphs for node in graph.nodes}


def _operands(
    place: Place, node: Node, nodes: Mapping[tuple[int | None, str], Node], taps: Taps
) -> tuple[Operand, ...]:
    """What an op reads; weights, which are not dumped, with the encoding that the graph has for them."""
    found = []
    for name in inputs_of(node.args):
        maker = read = nodes[place.partition, name]
        while kind_of(maker) in MOVES and (behind := inputs_of(maker.args)):
            maker = nodes[place.partition, behind[0]]
        encoding = taps.encodings.get(Place(place.partition, name, 0), read.encoding)
        found.append(Operand(maker, encoding))
    return tuple(found)


def _unit(place: Place, node: Node, taps: Taps) -> QuantParams | None:
    """The encoding in whose steps a value may be off: its own, or what a dequantise op reads."""
    own = taps.encodings.get(place, node.encoding)
    if own is not None or ".dequantize_" not in node.target:
        return own
    return next((taps.encodings.get(Place(place.partition, name, 0)) for name in inputs_of(node.args)), None)


def _in_half(place: Place, node: Node, taps: Taps) -> bool:
    """Whether an op computes in half floats, as all do in fp16, and what a quantiser leaves out."""
    return taps.half or (place.partition is not None and _unit(place, node, taps) is None)


def _held_floor(value: torch.Tensor, *, half: bool) -> Floor:
    """What rounding explains of what an input or constant loses: nothing of integers but float32's own."""
    spacing = ulp16(value) if half else value.abs() * FLOAT32
    return Floor(rms(spacing) * ROUNDINGS, float(spacing.max()) if spacing.numel() else 0.0)


def _walks(program: Program, taps: Taps) -> list[_Walk]:
    """The program in each reading that the dumped values allow, the usual one first."""
    if not taps.half:
        plain = _Walk(program, taps, _plain)
        if not any(_at_end(taps, place) for place in taps.values):
            return [plain]
        # What an op went beyond is told from what it read, which may have been clipped itself or not.
        chained = _Walk(program, taps, _unclipped)
        return [plain, chained, _Walk(program, taps, _unclipped, exact=plain.exact)]
    overflows = any(_beyond_half(tap) for tap in taps.values.values())
    walks = [_Walk(program, taps, _clamping(limit)) for limit in (FP16_OVERFLOW if overflows else ())]
    walks.append(_Walk(program, taps, _plain))
    if any(not torch.equal(half_of(tap), tap) for tap in taps.values.values()):
        walks.append(_Walk(program, taps, _rounded))
    if any(place not in taps.constants for place in walks[0].held):
        walks.append(_Walk(program, taps, _plain, holds=False))
    return walks


def _at_end(taps: Taps, place: Place) -> bool:
    """Whether a value stands at an end of its encoding's range, where it may have been clipped."""
    encoding, tap = taps.encodings.get(place), taps.values[place]
    if encoding is None or not tap.is_floating_point() or not tap.numel():
        return False
    ends = [_end(encoding, integer, tap.shape) for integer in (encoding.qmin, encoding.qmax)]
    return bool((tap <= ends[0]).any() or (tap >= ends[1]).any())


def _plain(tap: torch.Tensor, computed: Computed) -> torch.Tensor:
    return like(tap, computed.value)


def _rounded(tap: torch.Tensor, computed: Computed) -> torch.Tensor:
    """As a half float: some values are dumped before they are rounded to one."""
    return like(half_of(tap), computed.value)


def _clamping(limit: float) -> Reading:
    def read(tap: torch.Tensor, computed: Computed) -> torch.Tensor:
        if tap.is_floating_point():
            tap = torch.where(tap.abs() > FP16_MAX, tap.sign() * tap.abs().clamp(max=limit), tap)
        return like(tap, computed.value)

    return read


def _unclipped(tap: torch.Tensor, computed: Computed) -> torch.Tensor:
    """The dumped value, but unclipped where it stands at an end of its range and the op went beyond."""
    value = like(tap, computed.value)
    encoding = computed.node.encoding
    if encoding is None or computed.exact is None or not value.is_floating_point():
        return value
    step = step_of(encoding, value.shape)
    beyond = (computed.exact - value).abs() > step
    ends = (_end(encoding, encoding.qmin, value.shape), _end(encoding, encoding.qmax, value.shape))
    at_end = ((value - ends[0]).abs() < step / 2) & (computed.exact < value)
    at_end |= ((value - ends[1]).abs() < step / 2) & (computed.exact > value)
    return torch.where(beyond & at_end, computed.exact.to(value.dtype), value)


def _end(encoding: QuantParams, integer: int, shape: Sequence[int]) -> torch.Tensor:
    """The real number that an integer stands for; broadcasts to the shape."""
    if encoding.scheme == "per_block":
        return dequantise(torch.full(tuple(shape), integer), encoding)
    axis = encoding.axis if encoding.scheme == "per_channel" else None
    return dequantise(torch.full([n if i == axis else 1 for i, n in enumerate(shape)], integer), encoding)


def _beyond_half(tap: torch.Tensor) -> bool:
    """Whether a dumped value has a number that IEEE's half floats do not reach."""
    return tap.is_floating_point() and bool((tap.abs() > FP16_MAX).any())


def distance(value: torch.Tensor | None, tap: torch.Tensor) -> float:
    """L2 norm of a difference; infinite where there is none to take."""
    if value is None or value.numel() != tap.numel():
        return math.inf
    distance = float((value.double().reshape(-1) - tap.double().reshape(-1)).norm())
    return math.inf if math.isnan(distance) else distance


class _Walk:
    """The program with the HTP's values in one reading."""

    def __init__(
        self,
        program: Program,
        taps: Taps,
        reading: Reading,
        *,
        noisy: bool = False,
        holds: bool = True,
        exact: Mapping[Place, torch.Tensor] | None = None,
    ) -> None:
        """Walk through it.

        Args:
            program: on the inputs of a sample.
            taps: what the HTP dumped.
            reading: of those.
            noisy: move each value by a part of a rounding.
            holds: inputs and constants are half floats, as the HTP has them.
            exact: what a reading takes for computed, if it is not what this walk computes itself.
        """
        self.taps, self.reading, self.noisy, self.holds, self.judged_by = taps, reading, noisy, holds, exact
        self.executed = program.outside == "executed"
        self.generator = torch.Generator().manual_seed(SEED)
        self.nodes: dict[Place, Node] = {}
        self.exact: dict[Place, torch.Tensor] = {}
        self.rounded: dict[Place, torch.Tensor] = {}
        self.held: dict[Place, torch.Tensor] = {}
        self.given: dict[Place, torch.Tensor] = {}
        self.inputs: dict[Place, torch.Tensor] = {}
        self.unrounded: dict[Place, torch.Tensor] = {}
        self.went_on: dict[Place, torch.Tensor] = {}
        trace = program.run(self._substitute)
        self.results, self.problems = trace.results, trace.problems

    def _substitute(self, place: Place, computed: Computed) -> torch.Tensor | None:
        value = computed.value
        if computed.node.op in {"placeholder", "get_attr"}:
            if value is not None and place.partition is not None and computed.node.role == "input":
                self.inputs[place] = value
            return self._noisy(place, self._given(place, value), computed)
        if value is not None and computed.exact is not None:
            self.nodes[place] = computed.node
            self.exact[place], self.rounded[place] = computed.exact, self._rounded(place, value, computed)
        tap = self.taps.values.get(place)
        if tap is not None:
            if self.judged_by is not None:
                computed = replace(computed, exact=self.judged_by.get(place))
            value = self.reading(tap, computed)
            if value is not None:
                self.went_on[place] = value
        return self._noisy(place, value, computed)

    def _rounded(self, place: Place, value: torch.Tensor, computed: Computed) -> torch.Tensor:
        """What its encoding makes of a value that the program's CPU computes, and does not round."""
        encoding = computed.encoding if self.executed and place.partition is None else None
        if encoding is None or not value.is_floating_point():
            return value
        rounded = fake_quantise(value, encoding)
        if not torch.equal(rounded, value):
            self.unrounded[place] = value
        return rounded

    def _given(self, place: Place, value: torch.Tensor | None) -> torch.Tensor | None:
        """An input or constant as the HTP holds it."""
        if value is None or place.partition is None or not self.holds:
            return value
        held = self.taps.constants.get(place, value)
        held = half_of(held) if self.taps.half and place not in self.taps.folded else held
        if not torch.equal(held, value):
            self.held[place], self.given[place] = held, value
        return held

    def _noisy(self, place: Place, value: torch.Tensor | None, computed: Computed) -> torch.Tensor | None:
        if not self.noisy or value is None or computed.node.op == "get_attr":
            return value
        if computed.node.op == "placeholder" and not self.taps.half:
            return value  # both sides are given the same, and weights are integers
        encoding = self.taps.encodings.get(place, computed.node.encoding)
        return perturbed(value, encoding, self.generator, half=_in_half(place, computed.node, self.taps))


def _read_by_users(
    program: Program, chosen: Mapping[Place, _Walk], plain: _Walk
) -> dict[Place, torch.Tensor]:
    """For each value whose user is explained by another reading, what that user read instead."""
    nodes = _nodes_of(program)
    found: dict[Place, torch.Tensor] = {}
    for place, walk in chosen.items():
        for name in inputs_of(nodes[place.partition, place.node].args):
            maker = Place(place.partition, name, 0)
            if maker in walk.went_on and not torch.equal(walk.went_on[maker], plain.went_on[maker]):
                found[maker] = walk.went_on[maker]
    return found


def inputs_of(args: Sequence[Arg]) -> list[str]:
    """The nodes that an op reads, in order."""
    names: list[str] = []
    for arg in args:
        if isinstance(arg, Ref):
            names.append(arg.node)
        elif isinstance(arg, Seq):
            names += inputs_of(arg.items)
    return names

"""The graph behind an attribution: what a user calls its places, and which op behind one magnifies its error.

Owns names, edges and gains. It refuses to guess: a place that no graph has keeps the name that it came with.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from qnndbg.analyze.phrases import short_op
from qnndbg.analyze.view import GETITEM, refs
from qnndbg.model.attribution import Attribution, Effect, Step
from qnndbg.model.graph import Node
from qnndbg.recording.store import Recording

Key = tuple[int | None, str]
"""Partition and node."""
PREFIXES = ("p_", "b_", "c_")
"""What torch.export puts in front of parameters, buffers and constants."""
STEEP = 3.0
"""An op magnifies if its output errs that many times as much, relatively, as the worst of what it reads."""
DECORATION = re.compile(r"^_|^native_|_copy$|(?<=^conv)\w+$")
"""What the edge dialect adds to the name of an op, and which of the convolutions it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The nodes that the effects of an attribution are of."""

    nodes: Mapping[Key, Node] = field(default_factory=dict)
    exported: Mapping[str, Node] = field(default_factory=dict)
    """Those of the exported model, by name."""

    def gathered(self, attribution: Attribution) -> Attribution:
        """With the effect of a getitem, which only picks an output, in that of the op that it reads."""
        effects = dict(enumerate(attribution.effects))
        numbers = {(e.partition, e.node, e.output): number for number, e in effects.items()}
        for number, effect in tuple(effects.items()):
            node = self.nodes.get((effect.partition, effect.node))
            if node is None or node.target != GETITEM:
                continue
            read, output = next(refs(node), ""), node.args[1] if isinstance(node.args[1], int) else 0
            keys = ((effect.partition, read, output), (effect.partition, read, 0))
            maker = next((numbers[key] for key in keys if key in numbers), None)
            if maker is not None:
                effects[maker] = _sum(effects[maker], effects.pop(number))
        return replace(attribution, effects=tuple(effects.values()))

    def name(self, effect: Effect) -> str:
        """An input by its own name, a constant by the path of the parameter, all else as it is."""
        if effect.kind == "input":
            return effect.node
        if effect.kind == "constant":
            return self._parameters().get(effect.node) or _path(effect.node, effect.module)
        return effect.name

    def node(self, effect: Effect) -> str:
        """The node in the exported model, if it is that very op; else the one that the step has."""
        exported = self._exported(effect)
        name = exported.name if exported is not None else effect.node
        return f"{name}, {effect.output}" if effect.output else name

    def op(self, effect: Effect) -> str:
        """The op as the exported model has it, if the backend only calls the same one otherwise."""
        exported = self._exported(effect)
        return exported.target if exported is not None else effect.op

    def _exported(self, effect: Effect) -> Node | None:
        """The node of the exported model that is the same op, if there is one."""
        node = self.nodes.get((effect.partition, effect.node))
        ancestors = node.origin.ancestors if node is not None else ()
        exported = self.exported.get(ancestors[-1]) if effect.kind == "op" and ancestors else None
        same = exported is not None and _plain(exported.target) == _plain(effect.op)
        return exported if same else None

    def magnifier(self, attribution: Attribution, effect: Effect) -> tuple[Effect, float] | None:
        """The op behind a place that magnifies most what it reads, and how many times; None if none does."""
        wrong = {(e.partition, e.node): _relative(e) for e in attribution.effects}
        effects = {(e.partition, e.node): e for e in attribution.effects}
        behind = {(effect.partition, effect.node)}
        best: tuple[Effect, float] | None = None
        for key, node in self.nodes.items():  # in the order of execution
            read = {(key[0], name) for name in refs(node)}
            if key[0] != effect.partition or not read & behind:
                continue
            behind.add(key)
            before = max((wrong.get(source, 0.0) for source in read), default=0.0)
            gain = wrong.get(key, 0.0) / before if before else 0.0
            if key in effects and math.isfinite(gain) and gain > max(STEEP, best[1] if best else 0.0):
                best = effects[key], gain
        return best

    def _parameters(self) -> dict[str, str]:
        """The name that torch.export makes of a path, and the path."""
        paths = [n.target or n.name for n in self.exported.values() if n.constant is not None]
        return {
            f"{prefix}{path.replace('.', '_')}": path
            for path in paths
            if "." in path
            for prefix in ("", *PREFIXES)
        }


def places_of(recording: Recording, step: Step, method: str) -> Places:
    """The graphs of a step: of the quantiser the float model, of the backend its partitions."""
    exported = recording.last_graph("export", method)
    return Places(
        nodes={(part, node.name): node for part, node in _nodes(recording, step, method)},
        exported={node.name: node for node in exported.nodes} if exported is not None else {},
    )


def _nodes(recording: Recording, step: Step, method: str) -> Iterator[tuple[int | None, Node]]:
    whole = recording.last_graph("annotation" if step == "quantisation" else "partition", method)
    yield from ((None, node) for node in (whole.nodes if whole is not None else ()))
    if step == "backend":
        for qnn in recording.qnn:
            if qnn.method == method:
                yield from ((qnn.partition, node) for node in recording.graph(qnn.graph).nodes)


def told_apart(names: Sequence[str], wheres: Sequence[str], nodes: Sequence[str]) -> tuple[str, ...]:
    """Names, of which those that are equal at an equal place have the name of the node added."""
    counts = Counter(zip(names, wheres, strict=True))
    return tuple(
        f"{name} [{node}]" if counts[name, where] > 1 else name
        for name, where, node in zip(names, wheres, nodes, strict=True)
    )


def _path(name: str, module: str) -> str:
    """The path of a parameter of which torch.export made that name, where the module that reads it tells."""
    kind, rest = name[:2], name[2:]
    if kind not in PREFIXES:
        return name
    if not module:
        return name if "_" in rest else rest
    inside = f"{module.replace('.', '_')}_"
    return f"{module}.{rest.removeprefix(inside)}" if rest.startswith(inside) else name


def _sum(maker: Effect, getitem: Effect) -> Effect:
    return replace(
        maker,
        linear=_added(maker.linear, getitem.linear),
        exact=_added(maker.exact, getitem.exact),
        rounding=maker.rounding or getitem.rounding,
    )


def _added(one: float | None, other: float | None) -> float | None:
    return other if one is None else one + (other or 0.0)


def _relative(effect: Effect) -> float:
    return effect.accumulated / effect.signal if effect.signal else 0.0


def _plain(op: str) -> str:
    return DECORATION.sub("", DECORATION.sub("", short_op(op)))

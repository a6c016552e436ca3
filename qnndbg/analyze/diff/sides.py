"""The two recordings while they are compared: their graphs, and a provenance that both share.

Graphs are large and many, so few are kept; their canonical forms are small and are. Ancestors are names of
nodes of the exported graph, which shift when an op is put in; so the exported graphs are paired first, and an
ancestor is then the number of its pair.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from msgspec.structs import replace

from qnndbg.analyze.diff.form import Form, Interner, comparable, form_of, same_graphs
from qnndbg.analyze.diff.pair import Evidence, Pairing, pair
from qnndbg.analyze.diff.step import in_step
from qnndbg.model.graph import Graph, Node
from qnndbg.model.recording import PassEvent
from qnndbg.recording.store import Recording

_BEFORE_EXPORT = ("annotation", "quantized")
"""Stages that have an export of their own."""
KEPT = 60_000
"""Nodes of the graphs that each side holds in memory; some 100 MB."""


Evidences = tuple[list[Evidence], list[Evidence]]


class Side:
    """One of the two recordings.

    Args:
        recording: complete or not.
        intern: the one of both sides.
    """

    def __init__(self, recording: Recording, intern: Interner) -> None:
        self.recording = recording
        self.passes = recording.passes
        self._intern = intern
        self._forms: dict[str, Form] = {}
        self._first = _representatives(recording.passes)
        self._graphs: dict[str, Graph] = {}
        self._held = 0
        self._tokens: dict[str, dict[str, int]] = {}
        """Digest of a root to the names of its nodes, and to the numbers of their pairs."""

    def graph(self, digest: str) -> Graph:
        """A snapshot.

        Raises:
            RecordingError: it is missing or damaged.
        """
        if digest not in self._graphs:
            graph = comparable(self.recording.graph(digest))
            while self._graphs and self._held + len(graph.nodes) > KEPT:
                self._held -= len(self._graphs.pop(next(iter(self._graphs))).nodes)
            self._held += len(graph.nodes)
            self._graphs[digest] = graph
        return self._graphs[digest]

    def first(self, digest: str) -> str:
        """The digest of the first snapshot that is the same but for names and provenance."""
        return self._first.get(digest, digest)

    def form(self, digest: str) -> Form:
        """A snapshot in canonical form."""
        if digest not in self._forms:
            self._forms[digest] = form_of(self.graph(digest), self._intern)
        return self._forms[digest]

    def events(self, method: str) -> list[PassEvent]:
        """The pass events of a method, in order."""
        return [event for event in self.passes if event.method == method]

    def settle(self, event: PassEvent) -> None:
        """Say of an event that it changed nothing, if it changed the end of the graph only."""
        if self.recording.canonical or not (event.before and event.after):
            return
        if in_step(self.graph(event.before), self.graph(event.after)):
            same = replace(event, changed=False)
            self.passes = tuple(same if e.index == event.index else e for e in self.passes)

    def methods(self) -> tuple[str, ...]:
        """The methods that were lowered, in order."""
        return tuple(dict.fromkeys(event.method for event in self.passes))

    def root(self, method: str, stage: str) -> str:
        """The digest of the graph whose nodes the ancestors at a stage are: as it was first exported."""
        early = stage in _BEFORE_EXPORT
        stages = (stage,) if early else None
        for event in self.events(method):
            fits = event.stage in stages if stages else event.stage not in _BEFORE_EXPORT
            if fits and event.after:
                return event.after
        return ""

    def name_root(self, digest: str, numbers: dict[str, int]) -> None:
        """Say which numbers the nodes of an exported graph have."""
        self._tokens[digest] = numbers

    def evidence(self, nodes: Sequence[Node], root: str) -> list[Evidence]:
        """Where nodes come from.

        Args:
            nodes: of one graph.
            root: digest of the exported graph that their ancestors are nodes of; empty if unknown.
        """
        known = self._tokens.get(root, {})
        found = []
        for node in nodes:
            origin = node.origin
            names = origin.ancestors
            ancestors = tuple([known[name] for name in names if name in known]) if names else ()
            found.append(Evidence(ancestors, origin.module_path, origin.source, origin.created_by))
        return found


class Sides:
    """Both recordings.

    Args:
        a: one.
        b: the other.
    """

    def __init__(self, a: Recording, b: Recording) -> None:
        self.intern = Interner()
        self.a, self.b = Side(a, self.intern), Side(b, self.intern)
        self._same: dict[tuple[str, str], bool] = {}
        self._pairings: dict[tuple[Hashable, ...], Pairing] = {}
        self._numbered: set[tuple[str, str]] = set()

    def same(self, a: str, b: str) -> bool:
        """Two snapshots, given by their digests, are the same but for names and provenance."""
        a, b = self.a.first(a), self.b.first(b)
        if a == b:
            return True
        if not (a and b):
            return False
        if self.a.recording.canonical and self.b.recording.canonical:
            return a.partition("/")[0] == b.partition("/")[0]
        if (a, b) not in self._same:
            self._same[a, b] = in_step(self.a.graph(a), self.b.graph(b)) or same_graphs(
                self.a.form(a), self.b.form(b), self.intern
            )
        return self._same[a, b]

    def pair(self, a: str, b: str, method: str, stage: str = "export") -> Pairing:
        """Pair the nodes of two snapshots, given by their digests.

        Args:
            a: digest of the one.
            b: digest of the other.
            method: whose graphs they are.
            stage: of the two.
        """
        roots = self._roots(method, stage)
        if (a, b, roots) not in self._pairings:
            if (a, b) != roots:
                self._number(*roots)
            evidence = (
                self.a.evidence(self.a.graph(a).nodes, roots[0] if a != roots[0] else ""),
                self.b.evidence(self.b.graph(b).nodes, roots[1] if b != roots[1] else ""),
            )
            self._pairings[a, b, roots] = pair(self.a.form(a), self.b.form(b), self.intern, *evidence)
        return self._pairings[a, b, roots]

    def evidence(self, method: str, nodes_a: Sequence[Node], nodes_b: Sequence[Node]) -> Evidences:
        """Where nodes of both sides come from, in terms that both share."""
        roots = self._roots(method, "preprocess")
        self._number(*roots)
        return self.a.evidence(nodes_a, roots[0]), self.b.evidence(nodes_b, roots[1])

    def _roots(self, method: str, stage: str) -> tuple[str, str]:
        """The exported graphs whose nodes the ancestors at a stage are; empty if there is none."""
        first, second = (side.root(method, stage) for side in (self.a, self.b))
        return first, second

    def _number(self, a: str, b: str) -> None:
        """Number the nodes of two exported graphs, those of a pair with one number."""
        if (a, b) in self._numbered or not (a and b):
            return
        self._numbered.add((a, b))
        left, right = ([node.name for node in side.graph(d).nodes] for side, d in ((self.a, a), (self.b, b)))
        partners = range(len(left)) if a == b else self._pair_roots(a, b).to_b
        self.a.name_root(a, {name: i for i, name in enumerate(left)})
        paired = {j: i for i, j in enumerate(partners) if j >= 0}
        self.b.name_root(b, {name: paired.get(j, -1 - j) for j, name in enumerate(right)})

    def _pair_roots(self, a: str, b: str) -> Pairing:
        evidence = (self.a.evidence(self.a.graph(a).nodes, ""), self.b.evidence(self.b.graph(b).nodes, ""))
        return pair(self.a.form(a), self.b.form(b), self.intern, *evidence)


def _representatives(passes: Sequence[PassEvent]) -> dict[str, str]:
    """Digest to that of the first snapshot with its structure, as the passes that changed nothing tell."""
    first: dict[str, str] = {}
    for event in passes:
        if event.before and event.after and event.name and not (event.changed or event.error):
            first.setdefault(event.after, first.get(event.before, event.before))
    return first

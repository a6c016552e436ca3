"""Two recordings that are looked at together: what differs, and which place of one is which of the other."""

from __future__ import annotations

from functools import cached_property

from qnndbg.analyze.diff.qnn import TensorId, Tensors, pair_tensors
from qnndbg.analyze.diff.recordings import diff_recordings
from qnndbg.analyze.diff.sides import Sides
from qnndbg.model.diff import Diff
from qnndbg.model.recording import PassEvent
from qnndbg.tui.places import GraphAt, LayerAt, NodeAt, PageAt, PassAt, Place
from qnndbg.tui.state import Session


class Both:
    """Side A and side B.

    Args:
        a: the recording that was named first.
        b: the other one.
    """

    def __init__(self, a: Session, b: Session) -> None:
        self.a, self.b = a, b

    @cached_property
    def diff(self) -> Diff:
        """How the two differ; takes seconds for large recordings."""
        return diff_recordings(self.a.recording, self.b.recording)

    @cached_property
    def _pairs(self) -> Tensors:
        return pair_tensors(Sides(self.a.recording, self.b.recording))

    def other(self, session: Session) -> Session:
        """The session beside."""
        return self.b if session is self.a else self.a

    def partner(self, session: Session, place: Place) -> Place | None:
        """The same place in the other recording; None if it has none."""
        match place:
            case LayerAt():
                return self._layer(session, place)
            case PassAt(position=position):
                return self._pass(session, position)
            case GraphAt(stage=stage, method=method, partition=partition):
                return GraphAt(stage, method, partition)
            case NodeAt(name=name, graph=graph):
                there = None if graph is None else GraphAt(graph.stage, graph.method, graph.partition)
                return NodeAt(name, there)
            case PageAt():
                return place
            case _:
                return None

    def _layer(self, session: Session, key: LayerAt) -> LayerAt | None:
        tensor = TensorId(key.method, key.partition, key.tensor)
        pairs = self._pairs if session is self.a else {b: a for a, b in self._pairs.items()}
        found = pairs.get(tensor)
        return None if found is None else LayerAt(found.method, found.partition, found.name)

    def _pass(self, session: Session, position: int) -> PassAt | None:
        """The run of the same pass in the same stage; of several, the one of the same number."""
        ours, theirs = session.passes, self.other(session).recording.passes
        event = ours[position]

        def key(i: int, events: tuple[PassEvent, ...]) -> tuple[str, str, str, int | None]:
            return events[i].name, events[i].stage, events[i].method, events[i].partition

        wanted = (event.name, event.stage, event.method, event.partition)
        number = sum(key(i, ours) == wanted for i in range(position))
        alike = [i for i in range(len(theirs)) if key(i, theirs) == wanted]
        return PassAt(alike[min(number, len(alike) - 1)]) if alike else None

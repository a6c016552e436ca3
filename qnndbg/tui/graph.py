"""Two pages over graphs: all nodes of one in their order, and a walk from node to node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget

from qnndbg.errors import QnndbgError
from qnndbg.tui import graph_lines
from qnndbg.tui.page import Page
from qnndbg.tui.places import GraphAt, NodeAt, Place
from qnndbg.tui.sheet import Content, Line, Lines, Sheet, Whole
from qnndbg.tui.state import Session
from qnndbg.tui.twins import descendant, twin
from qnndbg.tui.walk import Stop, Walk


class _Nodes(Whole):
    """The nodes of a graph, each drawn when it is seen."""

    def __init__(self, session: Session, at: GraphAt, walk: Walk, width: int) -> None:
        self.session, self.at = session, at
        self.stops, self.names = walk.stops, tuple(walk.stops)
        self.room = graph_lines.room_for(self.names, width)

    def __len__(self) -> int:
        return len(self.names)

    def line(self, index: int) -> Line:
        """A node."""
        return self._line(index, self.room)

    def whole(self, index: int) -> str:
        """A node whose name is not cut."""
        return self._line(index, max(map(len, self.names))).text.plain.rstrip()

    def _line(self, index: int, room: int) -> Line:
        return graph_lines.node_line(self.session, self.at, self.stops[self.names[index]], room)


class _OverGraphs(Page):
    """What both pages share: which graph is shown, and the way to the next one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("greater_than_sign,period,full_stop", "stage(1)", "Later stage"),
        Binding("less_than_sign,comma", "stage(-1)", "Earlier stage"),
        Binding("l", "layer", "Layer"),
    ]

    def __init__(self, session: Session, at: GraphAt) -> None:
        super().__init__(session)
        self.at = session.located(at)
        self.walk_graph = session.walk(self.at)

    @property
    def stop(self) -> Stop | None:
        """The value that keys are about."""
        raise NotImplementedError  # abstract; the metaclass of Textual leaves no room for ABC

    def moved_to(self, at: GraphAt, name: str) -> None:
        """Show another graph, at the node that stands for the same value."""
        raise NotImplementedError  # abstract; the metaclass of Textual leaves no room for ABC

    def action_stage(self, by: int) -> None:
        """Show the graph of the next stage, at the same value."""
        graphs = list(self.session.graphs)
        same = next((g for g in graphs if (g.stage, g.method, g.partition) == _key(self.at)), None)
        start = graphs.index(same) if same is not None else 0
        stop = self.stop
        for at in graphs[start + 1 :] if by > 0 else reversed(graphs[:start]):
            try:
                walk = self.session.walk(at)
                name = twin(self.session, stop, self.at, at) if stop is not None else ""
            except QnndbgError as error:
                self.shell.say(error.fact, bad=True)
                continue
            if name or stop is None or stop.kind == "output":
                self.at, self.walk_graph = at, walk
                self.moved_to(at, name)
                self.show_where()
                return
        end, back = ("last", "<") if by > 0 else ("first", ">")
        what = "stage" if stop is None else "stage that has this value"
        self.shell.say(f"this is the {end} {what}; {back} goes the other way")

    def action_layer(self) -> None:
        """Open the errors of the value."""
        try:
            key = descendant(self.session, self.at, self.stop) if self.stop is not None else None
        except QnndbgError as error:
            self.shell.say(error.fact, bad=True)
            return
        if key is None:
            self.shell.say("no QNN tensor stands for it", bad=True)
        else:
            self.shell.go(key)

    def at_text(self) -> str:
        """Which graph it is, among which."""
        names = [graph_lines.graph_name(g) for g in self.session.graphs]
        here = graph_lines.graph_name(self.at)
        return " ".join(f"[{name}]" if name == here else name for name in names)


def _key(at: GraphAt) -> tuple[str, str, int | None]:
    return at.stage, at.method, at.partition


class GraphPage(_OverGraphs):
    """All nodes of one graph in order of execution, with the errors of those that were compared."""

    @property
    def label(self) -> str:  # type: ignore[override]
        """Which graph."""
        return f"Graph {graph_lines.graph_name(self.at)}"

    def body(self) -> Sequence[Widget]:
        """One sheet."""
        return (Sheet(lambda width: _Nodes(self.session, self.at, self.walk_graph, width), id="graph"),)

    @property
    def stop(self) -> Stop | None:
        """The node under the cursor."""
        line = self.query_one("#graph", Sheet).line
        return line.data if line is not None and isinstance(line.data, Stop) else None

    def moved_to(self, at: GraphAt, name: str) -> None:
        """Show its nodes."""
        names = list(self.walk_graph.stops)
        self.query_one("#graph", Sheet).rebuild(names.index(name) if name in names else 0)

    def here(self) -> Place:
        """The graph."""
        return self.at

    def status(self) -> Text:
        """How large it is."""
        return Text.assemble(f" {len(self.walk_graph.stops)} nodes · stages: ", (self.at_text(), "faint"))

    def table(self) -> tuple[str, list[list[object]]]:
        """All nodes."""
        names = ("name", "op", "kind", "value", "inputs", "arguments", "module", "source", "created_by")
        rows = [
            [" ".join(v) if isinstance(v := getattr(s, n), tuple) else v for n in names]
            for s in self.walk_graph.stops.values()
        ]
        return f"graph-{self.at.stage}", [list(names), *rows]


class NodePage(_OverGraphs):
    """One node with what it reads and who reads it. The arrow keys walk along the edges."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "walk('inputs')", "To an input"),
        Binding("right", "walk('users')", "To a user"),
        Binding("u", "undo", "Step back", show=False),
    ]

    def __init__(self, session: Session, at: GraphAt, name: str, folder: Path) -> None:
        super().__init__(session, at)
        self.node_name, self.folder = name, folder
        self.trail: list[tuple[GraphAt, str]] = []
        self._mine = 0

    @property
    def label(self) -> str:  # type: ignore[override]
        """Which graph."""
        return f"Node of {graph_lines.graph_name(self.at)}"

    def body(self) -> Sequence[Widget]:
        """One sheet."""
        return (Sheet(self._around, id="node"),)

    def on_mount(self) -> None:
        """Stand on the node itself."""
        self.call_after_refresh(self._stand)

    def _stand(self) -> None:
        self.query_one("#node", Sheet).rebuild(self._mine)
        self.query_one("#node", Sheet).rebuild(self._mine)
        self.show_status()

    def _around(self, width: int) -> Content:
        lines, self._mine = graph_lines.around(
            self.session, self.at, self.walk_graph, self.node_name, self.folder, width
        )
        return Lines(lines)

    @property
    def stop(self) -> Stop | None:
        """The node that one stands on."""
        return self.walk_graph.stops.get(self.node_name)

    def moved_to(self, at: GraphAt, name: str) -> None:
        """Stand on its twin."""
        self.node_name = name or next(iter(self.walk_graph.stops))
        self._stand()

    def here(self) -> Place:
        """The node."""
        return NodeAt(self.node_name, self.at)

    def status(self) -> Text:
        """Which graph, and which others there are."""
        return Text.assemble(" stages: ", (self.at_text(), "faint"))

    def action_walk(self, way: str) -> None:
        """Go along an edge: to the neighbour under the cursor if it lies that way, else to the first."""
        line = self.sheet.line
        data = line.data if line is not None else None
        if isinstance(data, tuple) and data[0] == way:
            self._step(data[2].name)
            return
        stop = self.stop
        names = () if stop is None else stop.inputs if way == "inputs" else self.walk_graph.users[stop.name]
        names = tuple(name for name in names if name in self.walk_graph.stops)
        best = [n for n in names if self.walk_graph.stops[n].kind != "weight"] or list(names)
        if best:
            self._step(best[0])
        else:
            self.shell.say("it reads nothing" if way == "inputs" else "nothing reads it")

    def _step(self, name: str) -> None:
        self.trail.append((self.at, self.node_name))
        self.node_name = name
        self._stand()

    def action_undo(self) -> None:
        """Take back a step."""
        if not self.trail:
            self.shell.say("no step was taken yet")
            return
        self.at, self.node_name = self.trail.pop()
        self.walk_graph = self.session.walk(self.at)
        self._stand()

    def opened(self, _sheet: Sheet, line: Line) -> None:
        """Walk to a neighbour; the node itself opens as a layer."""
        place = line.place
        if isinstance(place, NodeAt):
            self._step(place.name)
        elif place is not None:
            self.shell.go(place)
        else:
            self.shell.say("no QNN tensor stands for it")

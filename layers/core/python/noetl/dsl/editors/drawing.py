"""Pictures of a graph: Mermaid and Graphviz text.

Names and guards may hold anything; neither can break out of its label.
"""

from __future__ import annotations

from noetl.dsl.editors.graph import Graph, GraphNode, graph_of
from noetl.dsl.program import Program

_SHAPES = {
    "step": ('["', '"]'),
    "loop": ('[["', '"]]'),
    "gate": ('{{"', '"}}'),
    "route": ('("', '")'),
    "ends_all": ('((("', '")))'),
    "undo": ('>"', '"]'),
    "playbook": ('[/"', '"/]'),
}
_LINES = {"arc": "-->", "failure": "-.->", "cancels": "-.-x", "undoes": "-.-o", "calls": "==>"}
_DOT_SHAPES = {
    "step": "box",
    "loop": "box3d",
    "gate": "hexagon",
    "route": "ellipse",
    "ends_all": "doublecircle",
    "undo": "cds",
    "playbook": "parallelogram",
}
_DOT_LINES = {
    "arc": "style=solid",
    "failure": "style=dashed",
    "cancels": "style=dashed, arrowhead=tee",
    "undoes": "style=dotted, arrowhead=odot",
    "calls": "style=bold",
}


def to_mermaid(program: Program) -> str:
    """Return a Mermaid flowchart of a program."""
    return _mermaid(graph_of(program))


def to_dot(program: Program) -> str:
    """Return Graphviz text of a program."""
    return _dot(graph_of(program))


def _mermaid(graph: Graph) -> str:
    """Draw the graph as a Mermaid ``flowchart TD``.

    Loops are subroutines, gates hexagons, routes rounded, what undoes a step a flag, a called playbook slanted;
    failure arcs are dashed, cancels end in a cross, calls are thick.
    """
    lines = ["flowchart TD"]
    lines += [f"    {node.id}{_shape(node)}" for node in graph.nodes]
    if graph.entry is not None:
        lines.append(f"    begin(( )) --> {graph.entry}")
    for edge in graph.edges:
        label = f'|"{_escape(edge.label)}"|' if edge.label else ""
        lines.append(f"    {edge.source} {_LINES[edge.kind]}{label} {edge.target}")
    if graph.final is not None:
        lines.append(f"    finish([when all is done]) -.-> {graph.final}")
    return "\n".join(lines) + "\n"


def _shape(node: GraphNode) -> str:
    opening, closing = _SHAPES[node.kind]
    return opening + "<br/>".join(_escape(line) for line in (node.name, *node.notes)) + closing


def _escape(text: str) -> str:
    """Mermaid reads quotes, brackets and HTML in labels: they travel as character codes."""
    return "".join(char if char.isalnum() or char in " _-.,=/()+*…" else f"#{ord(char)};" for char in text)


def _dot(graph: Graph) -> str:
    """Draw a ``digraph`` with the same shapes and lines, as far as Graphviz has them."""
    lines = ["digraph playbook {", "    rankdir=TB;", f"    label={_quoted(graph.name)};"]
    for node in graph.nodes:
        label = _quoted("\n".join((node.name, *node.notes)))
        lines.append(f"    {node.id} [label={label}, shape={_DOT_SHAPES[node.kind]}];")
    if graph.entry is not None:
        lines += ['    begin [label="", shape=circle];', f"    begin -> {graph.entry};"]
    for edge in graph.edges:
        label = f"label={_quoted(edge.label)}, " if edge.label else ""
        lines.append(f"    {edge.source} -> {edge.target} [{label}{_DOT_LINES[edge.kind]}];")
    if graph.final is not None:
        lines += [
            '    finish [label="when all is done", shape=ellipse];',
            f"    finish -> {graph.final} [style=dashed];",
        ]
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    """Quote a Graphviz string; line ends stay, other control characters go."""
    safe = "".join(char if char.isprintable() or char == "\n" else "?" for char in text)
    escaped = safe.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'

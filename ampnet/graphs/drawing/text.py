"""Drawings as text: Mermaid flowcharts, and the source of Graphviz."""

from .describe import CONTROL, LEARNS, LOSS, OTHER, SOURCE, colour

MERMAID_SHAPES = {SOURCE: '(["{}"])', LEARNS: '["{}"]', CONTROL: '{{{{"{}"}}}}', LOSS: '[["{}"]]', OTHER: '("{}")'}
GRAPHVIZ_SHAPES = {
    SOURCE: 'shape=box, style="rounded,filled"',
    LEARNS: 'shape=box, style="filled,bold"',
    CONTROL: 'shape=hexagon, style="filled"',
    LOSS: 'shape=box, peripheries=2, style="filled"',
    OTHER: 'shape=ellipse, style="filled"',
}
MERMAID_ENTITIES = {ord(sign): f"#{ord(sign)};" for sign in '#"&<>`'}   # those that mean something in a label


def mermaid(drawing):
    """A Mermaid flowchart; edges that close a loop are dotted."""
    lines = ["flowchart TB"]
    for box in drawing.boxes:
        label = f"{box.name}: {box.text}".translate(MERMAID_ENTITIES) + (f"<br>{box.place}" if box.place else "")
        lines.append(f"    n{box.number}{MERMAID_SHAPES[box.role].format(label)}")
    for edge in drawing.edges:
        arrow = "-.->" if edge.closes_loop else "-->"
        label = f"|{edge.label}|" if edge.label else ""
        lines.append(f"    n{edge.source} {arrow}{label} n{edge.target}")
    for worker in drawing.workers:
        hosted = ",".join(f"n{box.number}" for box in drawing.boxes if box.worker == worker)
        lines += [f"    classDef worker{worker} fill:{colour(worker)},stroke:#333,color:#000",
                  f"    class {hosted} worker{worker}"]
    return "\n".join(lines) + "\n"


def graphviz(drawing):
    """A graph in Graphviz's language; edges that close a loop are dashed and do not count for the ranks."""
    lines = [f"digraph {_quoted(drawing.title or 'graph')} {{", '    node [fontname="sans-serif", fillcolor="#ffffff"];']
    for box in drawing.boxes:
        label = "\\n".join(_escaped(text) for text in (box.name, box.text, box.place) if text)
        fill = "" if box.worker is None else f', fillcolor="{colour(box.worker)}"'
        lines.append(f'    n{box.number} [label="{label}", {GRAPHVIZ_SHAPES[box.role]}{fill}];')
    for edge in drawing.edges:
        facts = [f'label="{edge.label}"'] if edge.label else []
        facts += ["style=dashed", "constraint=false"] if edge.closes_loop else []
        lines.append(f"    n{edge.source} -> n{edge.target}" + (f" [{', '.join(facts)}]" if facts else "") + ";")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text):
    return f'"{_escaped(text)}"'


def _escaped(text):
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")

"""What there is to draw of a graph, whatever draws it."""

from colorsys import hls_to_rgb
from dataclasses import dataclass

from ..nodes import Cond

SOURCE, LEARNS, CONTROL, LOSS, OTHER = ROLES = ("source", "parameters", "control", "loss", "other")
GOLDEN = 0.618034   # of a turn of hue: however many workers, no two come out alike
LIGHT = (0.86, 0.72, 0.80)


@dataclass(frozen=True)
class Box:
    """A node. role: one of `ROLES`, which gives its shape; worker: None where it runs wherever a message is."""

    number: int
    name: str
    text: str
    role: str
    worker: int | None

    @property
    def place(self):
        return "" if self.worker is None else f"worker {self.worker}"


@dataclass(frozen=True)
class Edge:
    """From an output to an input, both ends as numbers of boxes. label: "" where the output says nothing of the state;
    closes_loop: without edges of this kind the graph has no loop."""

    source: int
    target: int
    label: str
    closes_loop: bool


@dataclass(frozen=True)
class Drawing:
    boxes: list[Box]
    edges: list[Edge]
    title: str = ""

    @property
    def workers(self):
        """Numbers of the workers that host something, ascending."""
        return sorted({box.worker for box in self.boxes if box.worker is not None})


def describe(graph, placement=None, title=""):
    """The `Drawing` of a graph. placement: node -> worker, or None to leave workers out."""
    placement = placement or {}
    boxes = [Box(node.number, node.name, _text(node), _role(node), placement.get(node)) for node in graph.nodes]
    edges = [_edge(output) for node in graph.nodes for output in node.outputs if output.target]
    return Drawing(boxes, edges, title)


def colour(worker):
    """A light colour, "#rrggbb", that no other worker has."""
    rgb = hls_to_rgb((0.57 + GOLDEN * worker) % 1, LIGHT[worker % len(LIGHT)], 0.75)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)


def _role(node):
    if node.is_source:
        return SOURCE
    if node.is_loss:
        return LOSS
    if node.parameters:
        return LEARNS
    return CONTROL if node.immediate else OTHER


def _text(node):
    """Its kind, and the shapes of its weights, or the columns of what it sends (a loss: of what it gets)."""
    shapes = ["x".join(map(str, p.shape)) for p in node.parameters.values() if len(p.shape) > 1]
    if not shapes:
        shapes = [str(port.width) for port in (node.outputs or node.inputs)[:1]]
    activation = getattr(node, "activation", None)
    return " ".join([node.kind, " + ".join(shapes), *([activation] if activation else [])])


def _edge(output):
    source, target = output.node, output.target[0]
    closes_loop = target.number <= source.number and _leads_to(target, source)
    return Edge(source.number, target.number, _label(output), closes_loop)


def _label(output):
    """Which answer of a Cond an output is for."""
    if not isinstance(output.node, Cond):
        return ""
    return str(output.port) if output.node.output_count else ("yes", "no")[output.port]


def _leads_to(first, last):
    seen, todo = set(), [first]
    while todo:
        node = todo.pop()
        if node is last:
            return True
        if node not in seen:
            seen.add(node)
            todo += [output.target[0] for output in node.outputs if output.target]
    return False

"""Gated graph network: T steps of messages along typed edges and a GRU at every node, then a readout.

Fused: one message is a matrix of all nodes of a graph.

    annotation -> Bcast -> Pad -> Phi -> Bcast -> Gather -> Linear of edge type 1 --+
                    |              ^       |  \\--> Gather -> Linear of edge type K --+-> ScatterAdd --+
                    |              |       +-----------------------------------------------------> GRUCell -> Cond
                    |              +---------------------- Isu(step + 1) <----------(more)------------------+ |
                    +--> readout <------------------------ Isu(step = 0) <------------------------------(last)+

Fine, as in the paper: one message is one node, or one edge.

    annotation -> Bcast -> Pad -> Phi -> Bcast -> Flatmap over outgoing edges -> Cond(edge type)
                                                  -> Group by type -> Linear of that type -> Ungroup -+
           zeros -> Flatmap over nodes and steps -> Phi <---------------------------------------------+
                                                     +-> Group by target -> SumRows -> GRUCell -> Cond -> as above

Both have the same parameters and compute the same. Li et al. 2016; the vector of a graph as in their equation 7.
"""

from functools import cache

from ..errors import GraphError
from .graph import Graph
from .nodes import (
    Bcast,
    Cond,
    Flatmap,
    GatedSum,
    Gather,
    Group,
    GRUCell,
    Isu,
    Linear,
    Pad,
    Phi,
    ScatterAdd,
    SelectRow,
    SquaredError,
    SumRows,
    Ungroup,
)
from .nodes.node import positive

READOUTS = ("select", "regression")
FINE_TABLES = "edge_source edge_target edge_type edge_row edge_place typed type_start first_edge out_degree in_degree"


def ggnn(annotation, edge_types, hidden=100, steps=4, readout="regression", unit=1.0, form="fused"):
    """A gated graph network.

    annotation: width of the column `annotation`, a row a node; edge_types: types, counting both directions where they
    differ; readout: "select" scores every node and compares with the column `answer`; "regression" makes a vector of the
    graph, sum of sigmoid([h | x] G + g) * tanh(h V + v) over its nodes, and compares what two more layers make of it with
    the column `target`; its error is told in units of `unit`. Fused it reads the columns `sourcesK`
    and `edgesK`, fine the tables of `datasets.edges.fine_columns`.
    """
    for name, value in (("annotation", annotation), ("edge_types", edge_types), ("hidden", hidden), ("steps", steps)):
        positive(value, f"ggnn: {name}")
    if hidden < annotation:
        raise GraphError(f"ggnn: hidden must be at least the width of the annotation, {annotation}, got {hidden}")
    if readout not in READOUTS:
        raise GraphError(f"ggnn: unknown readout {readout!r}; known: {', '.join(READOUTS)}")
    if form not in FORMS:
        raise GraphError(f"ggnn: unknown form {form!r}; known: {', '.join(FORMS)}")
    g, x, h = FORMS[form](annotation, edge_types, hidden, steps)
    for node in g.nodes:
        node.passes = steps if node.parameters else 1   # so that all nodes update after as many instances
    if readout == "select":
        SelectRow("answer", name="loss")(Linear(hidden + annotation, 1, name="score")(h, x))
    else:
        h_gate, h_value = Bcast(name="h_final")(h)
        gate = Linear(hidden + annotation, hidden, name="gate")(h_gate, x)
        graph = GatedSum(name="readout")(gate, Linear(hidden, hidden, "tanh", name="value")(h_value))
        graph = Linear(hidden, hidden, "relu", name="layer")(graph)
        SquaredError("target", unit=unit, name="loss")(Linear(hidden, 1, name="output")(graph))
    return g


def _fused(annotation, edge_types, hidden, steps):
    """(graph, annotations, last hidden values), both with a row a node."""
    g = Graph(state="step")
    first, x = Bcast(name="annotations")(g.matrix("annotation", annotation, name="annotation"))
    h = Phi(name="loop")(Pad(hidden, name="h0")(first))
    *copies, own = Bcast(edge_types + 1, name="h")(h)
    types = range(1, edge_types + 1)
    along = [Linear(hidden, hidden, name=f"edge{k}")(Gather(f"sources{k}", "annotation", name=f"gather{k}")(copy))
             for k, copy in zip(types, copies, strict=True)]
    incoming = ScatterAdd([f"edges{k}" for k in types], [f"sources{k}" for k in types], "annotation", name="incoming")(*along)
    return g, x, _step(h, incoming, own, hidden, steps)


def _step(h, incoming, own, hidden, steps):
    """The GRU and the counted loop around it; returns the last hidden values, their step set back to 0."""
    go_on, to_start, to_end = _counted(steps)
    more, last = Cond(go_on, name="go_on")(GRUCell(hidden, hidden, name="gru")(incoming, own))
    h.close(Isu(next_step, last_step, name="next")(more))
    return Isu(to_start, to_end, name="end")(last)


@cache   # the same functions for every graph, which are then compiled once
def _counted(steps):
    def go_on(s):
        return s.step + 1 < steps

    def to_start(s):
        s.step -= steps - 1

    def to_end(s):
        s.step += steps - 1

    return go_on, to_start, to_end


def next_step(s):
    s.step += 1


def last_step(s):
    s.step -= 1


def _fine(annotation, edge_types, hidden, steps):
    """The same with a message a node and a message an edge. `edge` is the number of an edge plus 1, or 0."""
    types = range(1, edge_types + 1)
    g = Graph(state="node step edge", tables=FINE_TABLES)
    first, x = Bcast(name="annotations")(g.rows("annotation", annotation, index="node", name="annotation"))
    h = Phi(name="loop")(Pad(hidden, name="h0")(first))
    leaving, own = Bcast(name="h")(h)
    edges = Flatmap(outgoing_edge, source_node, outgoing_edges, name="edges")(leaving)
    by_type = Cond(edge_type, outputs=edge_types, name="edge_type")(edges) if edge_types > 1 else [edges]
    along = [_along(k, edges_of_type, hidden) for k, edges_of_type in zip(types, by_type, strict=True)]
    incoming = Phi(name="incoming")(*along, _zeros(g, hidden, steps))
    by_target = Group(target_node, place_at_target, incoming_edges, name="by_target")(incoming)
    last = _step(h, SumRows(name="sum")(by_target), own, hidden, steps)
    return g, *(Group(whole_graph, node_number, node_count, name=name)(rows) for name, rows in (("x_all", x), ("h_all", last)))


def _along(k, edges, hidden):
    """The edges of type k, from 1, multiplied together."""
    member, size = _of_type(k)
    grouped = Group(whole_graph, row_in_type, size, name=f"by_type{k}")(edges)
    return Ungroup(member, whole_graph, row_in_type, name=f"apart{k}")(Linear(hidden, hidden, name=f"edge{k}")(grouped))


@cache
def _of_type(k):
    def member(s, i, t):
        s.edge = t.typed[t.type_start[k - 1] + i] + 1
        s.node = t.edge_source[s.edge - 1]

    def size(s, t):
        return t.type_start[k] - t.type_start[k - 1]

    return member, size


def _zeros(g, hidden, steps):
    """A row of zeros for every node and step: a node that no edge leads to gets a sum too."""
    return Flatmap(*_nodes_and_steps(steps), name="nothing")(g.zeros(hidden, name="zeros"))


@cache
def _nodes_and_steps(steps):
    def member(s, i):
        s.node = i // steps
        s.step = i % steps

    def group(s):
        s.node = 0
        s.step = 0

    def size(s, t):
        return steps * len(t.in_degree)

    return member, group, size


def outgoing_edge(s, i, t):
    s.edge = t.first_edge[s.node] + i + 1


def source_node(s):
    s.edge = 0


def outgoing_edges(s, t):
    return t.out_degree[s.node]


def edge_type(s, t):
    return t.edge_type[s.edge - 1]


def row_in_type(s, t):
    return t.edge_row[s.edge - 1]


def whole_graph(s):
    s.node = 0
    s.edge = 0


def target_node(s, t):
    if s.edge > 0:
        s.node = t.edge_target[s.edge - 1]
    s.edge = 0


def place_at_target(s, t):
    return t.edge_place[s.edge - 1] if s.edge > 0 else 0


def incoming_edges(s, t):
    return t.in_degree[s.node] + 1


def node_number(s):
    return s.node


def node_count(s, t):
    return len(t.in_degree)


FORMS = {"fused": _fused, "fine": _fine}

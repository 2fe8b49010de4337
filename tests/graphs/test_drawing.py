"""Drawings: every node and edge once, in every form; colours by worker; nothing on top of anything else."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from graphlib import TopologicalSorter
from itertools import pairwise

import pytest

from ampnet.errors import SettingError
from ampnet.graphs import Concat, Graph, Linear, Phi, SoftmaxCrossEntropy, Split, Tanh, ggnn, mlp, rnn, tree_lstm
from ampnet.graphs.drawing import WRITERS, describe, graphviz, mermaid
from ampnet.graphs.drawing.describe import ROLES, colour
from ampnet.graphs.drawing.layout import arrange
from ampnet.graphs.placement import balance
from ampnet.graphs.replicas import replicate

MODELS = {
    "mnist": lambda: mlp(), "list-reduction": lambda: rnn(), "lstm": lambda: rnn(cell="lstm"),
    "sentiment": lambda: tree_lstm(50), "babi15": lambda: ggnn(1, 4, 5, 2, "select"), "qm9": lambda: ggnn(5, 4),
    "fine": lambda: ggnn(5, 4, form="fine"), "replicas": lambda: replicate(rnn(), 3),
}
MODEL = pytest.mark.parametrize("model", MODELS)
DOT_NODE = re.compile(r'n(\d+) \[label="((?:[^"\\]|\\.)*)", shape=\w+, (?:peripheries=2, )?style="[\w,]+"'
                      r'(?:, fillcolor="(#[0-9a-f]{6})")?\];')
DOT_EDGE = re.compile(r'n(\d+) -> n(\d+)(?: \[(\w+=[\w"]+(?:, )?)+\])?;')


def wires(graph):
    return Counter((node.number, output.target[0].number) for node in graph.nodes for output in node.outputs)


def drawn(model, workers=2):
    graph = MODELS[model]()
    return graph, describe(graph, balance(graph, workers), "a title")


def odd_names():
    g = Graph()
    x = Tanh(name='q"uo\\te')(g.matrix("x", 3, name="$a_b$ <i> #1 & `c`"))
    SoftmaxCrossEntropy("y", name="loss")(x)
    return g


@MODEL
def test_the_description_has_every_node_and_edge_once(model):
    graph, drawing = drawn(model)
    assert [box.name for box in drawing.boxes] == [node.name for node in graph.nodes]
    assert Counter((e.source, e.target) for e in drawing.edges) == wires(graph)
    assert {box.role for box in drawing.boxes} <= set(ROLES)
    roaming = {node.number for node in graph.nodes if node.roaming}
    assert {box.number for box in drawing.boxes if box.worker is None} == roaming


@MODEL
def test_without_the_edges_that_close_loops_there_is_no_loop(model):
    graph, drawing = drawn(model)
    expected = 0 if model == "mnist" else graph.replicas
    assert sum(edge.closes_loop for edge in drawing.edges) == expected
    ahead = {box.number: [] for box in drawing.boxes}
    for edge in drawing.edges:
        if not edge.closes_loop:
            ahead[edge.target].append(edge.source)
    assert len(list(TopologicalSorter(ahead).static_order())) == len(graph.nodes)


def test_a_further_input_that_closes_no_loop_is_no_loop():
    g = Graph()
    first = Phi(name="either")(g.matrix("x", 3))
    SoftmaxCrossEntropy("y")(Linear(3, 3)(first))
    first.close(Tanh()(g.matrix("z", 3)))
    assert not any(edge.closes_loop for edge in describe(g).edges)


def test_two_edges_between_the_same_nodes_are_two():
    g = Graph()
    SoftmaxCrossEntropy("y")(Concat()(*Split(2, 3)(g.matrix("x", 5))))
    drawing = describe(g)
    assert mermaid(drawing).count("n1 --> n2") == 2 and graphviz(drawing).count("n1 -> n2") == 2
    assert WRITERS[".svg"](drawing).count(b'id="edge-') == 4


def test_boxes_say_kind_and_shapes():
    texts = {box.name: box.text for box in describe(ggnn(5, 4, 100)).boxes}
    assert texts["edge1"] == "Linear 100x100" and texts["gru"] == "GRUCell 100x300 + 100x300"
    assert texts["value"] == "Linear 100x100 tanh" and texts["loop"] == "Phi 100" and texts["loss"] == "SquaredError 1"
    assert {e.label for e in describe(rnn()).edges} == {"", "yes", "no"}
    assert {e.label for e in describe(ggnn(5, 4, form="fine")).edges} == {"", "yes", "no", "0", "1", "2", "3"}


@MODEL
def test_mermaid(model):
    graph, drawing = drawn(model)
    first, *lines = mermaid(drawing).splitlines()
    assert first == "flowchart TB"
    nodes = [re.fullmatch(r'    n(\d+)([\[({]+)"([^"]*)"([\])}]+)', line) for line in lines]
    edges = [re.fullmatch(r"    n(\d+) (-->|-\.->)(?:\|\w+\|)? n(\d+)", line) for line in lines]
    assert [int(m[1]) for m in nodes if m] == [node.number for node in graph.nodes]
    assert Counter((int(m[1]), int(m[3])) for m in edges if m) == wires(graph)
    rest = [line for line, a, b in zip(lines, nodes, edges, strict=True) if not (a or b)]
    assert all(re.fullmatch(r"    class(Def worker\d+ fill:#\w{6},stroke:#333,color:#000| [n\d,]+ worker\d+)", r) for r in rest)
    assert len(rest) == 2 * len(drawing.workers)


@MODEL
def test_graphviz(model):
    graph, drawing = drawn(model)
    first, default, *lines, last = graphviz(drawing).splitlines()
    assert first == 'digraph "a title" {' and last == "}" and default.startswith("    node [")
    nodes = [DOT_NODE.fullmatch(line.strip()) for line in lines]
    edges = [DOT_EDGE.fullmatch(line.strip()) for line in lines]
    assert all(bool(a) != bool(b) for a, b in zip(nodes, edges, strict=True))
    assert [int(m[1]) for m in nodes if m] == [node.number for node in graph.nodes]
    assert Counter((int(m[1]), int(m[2])) for m in edges if m) == wires(graph)
    fills = {int(m[1]): m[3] for m in nodes if m}
    assert all(fills[b.number] == (None if b.worker is None else colour(b.worker)) for b in drawing.boxes)


@MODEL
def test_svg(model):
    graph, drawing = drawn(model)
    root = ElementTree.fromstring(WRITERS[".svg"](drawing))
    ids = Counter(element.get("id", "") for element in root.iter())
    assert root.tag.endswith("svg")
    assert all(ids[f"node-{node.number}"] == 1 for node in graph.nodes)
    assert all(ids[f"edge-{number}"] == 1 for number in range(len(drawing.edges)))
    assert ids[f"node-{len(graph.nodes)}"] == ids[f"edge-{len(drawing.edges)}"] == 0


def test_pictures_are_the_same_every_time():
    for ending in WRITERS:
        assert WRITERS[ending](drawn("sentiment")[1]) == WRITERS[ending](drawn("sentiment")[1]), ending


def test_png():
    data = WRITERS[".png"](drawn("qm9")[1])
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[-8:-4] == b"IEND"


@MODEL
def test_nothing_lies_on_anything_else(model):
    graph, drawing = drawn(model)
    widths = {node.number: 60.0 + 7 * len(node.name) for node in graph.nodes}
    layout = arrange(drawing, widths, lane=10, gap=12)
    layers = {}
    for number, layer in layout.layer.items():
        layers.setdefault(layer, []).append((layout.x[number], widths[number]))
    for lanes in layout.lanes:
        for layer, x in lanes:
            layers.setdefault(layer, []).append((x, 10))
    assert sorted(layers) == list(range(layout.layers))
    for things in layers.values():
        things.sort()
        for (x, width), (next_x, next_width) in pairwise(things):
            assert next_x - x >= (width + next_width) / 2 + 12 - 1e-6
        assert things[0][0] - things[0][1] / 2 >= -1e-6 and things[-1][0] + things[-1][1] / 2 <= layout.width + 1e-6
    for edge in drawing.edges:
        assert (layout.layer[edge.source] < layout.layer[edge.target]) != edge.closes_loop


@pytest.mark.parametrize("ending", [".svg", ".png"])
def test_pictures_without_matplotlib(ending, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SettingError, match="needs matplotlib"):
        WRITERS[ending](describe(rnn()))


def test_no_two_workers_have_a_colour_in_common():
    assert len({colour(worker) for worker in range(200)}) == 200


def test_names_with_signs_that_mean_something_elsewhere():
    drawing = describe(odd_names())
    assert '#34;' in mermaid(drawing) and mermaid(drawing).count('"') == 6
    assert r'q\"uo\\te' in graphviz(drawing)
    ElementTree.fromstring(WRITERS[".svg"](drawing))
    assert WRITERS[".png"](drawing)


def test_without_a_placement_nothing_is_coloured():
    graph = rnn()
    text = graph.mermaid()
    assert "classDef" not in text and "worker" not in text
    assert "classDef" in graph.mermaid(balance(graph, 2))

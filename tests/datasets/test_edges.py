import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampnet.datasets import edges
from ampnet.datasets.columns import Column, Instances
from ampnet.errors import DataError

MAX_NODES = 5


@st.composite
def batches_of_graphs(draw):
    """Arguments of `both_directions`, and the graphs they were made of: [(nodes, [(source, target, kind)])]."""
    kinds = draw(st.integers(1, 3))
    graphs = []
    for nodes in draw(st.lists(st.integers(0, MAX_NODES), max_size=5)):
        node = st.integers(0, nodes - 1)
        edge = st.tuples(node, node, st.integers(0, kinds - 1))
        graphs.append((nodes, draw(st.lists(edge, max_size=8)) if nodes else []))
    return graphs, kinds, draw(st.booleans())


def arguments(graphs, kinds, tied):
    source, target, kind = np.array([e for _, es in graphs for e in es], np.int64).reshape(-1, 3).T
    node_offsets = np.append(0, np.cumsum([nodes for nodes, _ in graphs], dtype=np.int64))
    edge_offsets = np.append(0, np.cumsum([len(es) for _, es in graphs], dtype=np.int64))
    return node_offsets, edge_offsets, source, target, kind, kinds, tied


def doubled(es, kinds, tied):
    """The definition, for one graph."""
    return es + [(t, s, k if tied else kinds + k) for s, t, k in es]


def rows(column, i):
    return column[i].astype(int).tolist()


def flat(column, i):
    assert column.width == 1
    return column[i][:, 0].astype(int).tolist()


@given(batches_of_graphs())
def test_both_directions(batch):
    graphs, kinds, tied = batch
    found = edges.both_directions(*arguments(*batch))
    assert found.kinds == (kinds if tied else 2 * kinds)
    for i, (_, es) in enumerate(graphs):
        mine = slice(found.offsets[i], found.offsets[i + 1])
        triples = zip(found.source[mine], found.target[mine], found.kind[mine], strict=True)
        assert list(triples) == doubled(es, kinds, tied)
        assert np.all(found.instance[mine] == i)
    assert found.offsets[-1] == len(found.source) == len(found.instance)


@given(batches_of_graphs())
def test_fused_columns(batch):
    graphs, kinds, tied = batch
    columns = edges.fused_columns(*arguments(*batch))
    types = kinds if tied else 2 * kinds
    assert set(columns) == {f"{name}{k}" for name in ("sources", "edges") for k in range(1, types + 1)}
    for i, (_, es) in enumerate(graphs):
        for k in range(types):
            mine = [(s, t) for s, t, kind in doubled(es, kinds, tied) if kind == k]
            sources = sorted({s for s, _ in mine})
            assert flat(columns[f"sources{k + 1}"], i) == sources
            assert rows(columns[f"edges{k + 1}"], i) == [[sources.index(s), t] for s, t in mine]


@given(batches_of_graphs())
def test_fine_columns(batch):
    graphs, kinds, tied = batch
    columns = edges.fine_columns(*arguments(*batch))
    types = kinds if tied else 2 * kinds
    assert all(columns[name].name == name for name in columns)
    for i, (nodes, es) in enumerate(graphs):
        numbered = sorted(doubled(es, kinds, tied), key=lambda e: e[0])
        sources, targets, of_type = ([e[place] for e in numbered] for place in range(3))
        expected = {
            "edge_source": sources,
            "edge_target": targets,
            "edge_type": of_type,
            "edge_row": [of_type[:e].count(k) for e, k in enumerate(of_type)],
            "edge_place": [1 + targets[:e].count(t) for e, t in enumerate(targets)],
            "first_edge": [sources.index(v) if v in sources else 0 for v in range(nodes)],
            "out_degree": [sources.count(v) for v in range(nodes)],
            "in_degree": [targets.count(v) for v in range(nodes)],
            "typed": sorted(range(len(of_type)), key=lambda e: of_type[e]),
            "type_start": [sum(kind < k for kind in of_type) for k in range(types + 1)],
        }
        assert {name: flat(column, i) for name, column in columns.items()} == expected


def test_a_loop_and_a_double_edge():
    graph = (3, [(1, 1, 0), (2, 0, 0), (2, 0, 0)])
    columns = edges.fused_columns(*arguments([graph], 1, False))
    assert flat(columns["sources1"], 0) == [1, 2]
    assert rows(columns["edges1"], 0) == [[0, 1], [1, 0], [1, 0]]
    assert flat(columns["sources2"], 0) == [0, 1]
    assert rows(columns["edges2"], 0) == [[1, 1], [0, 2], [0, 2]]


def test_all_columns_make_instances():
    given = arguments([(2, [(0, 1, 0)]), (1, []), (0, [])], 2, True)
    together = Instances({**edges.fused_columns(*given), **edges.fine_columns(*given)})
    assert len(together) == 3
    assert all(isinstance(column, Column) for column in together.columns.values())


GOOD = (2, [(0, 1, 0)])


@pytest.mark.parametrize("make", [edges.both_directions, edges.fused_columns, edges.fine_columns])
@pytest.mark.parametrize(
    ("graph", "said"),
    [
        ((20, [(0, 1, 0)] * 7 + [(0, 99, 0)]), "instance 1, edge 7: target 99 is no node, expected 0 to 19"),
        ((20, [(-1, 1, 0)]), "instance 1, edge 0: source -1 is no node, expected 0 to 19"),
        ((20, [(0, 1, 0), (20, 1, 0)]), "instance 1, edge 1: source 20 is no node, expected 0 to 19"),
        ((20, [(0, 1, 2)]), "instance 1, edge 0: type 2 is no known type, expected 0 to 1"),
        ((20, [(0, 1, -1)]), "instance 1, edge 0: type -1 is no known type, expected 0 to 1"),
        ((0, [(0, 0, 0)]), "instance 1, edge 0: source 0 is no node, expected none"),
    ],
)
def test_what_does_not_exist(make, graph, said):
    with pytest.raises(DataError, match=f"^{said}$"):
        make(*arguments([GOOD, graph, GOOD], 2, True))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"node_offsets": [0, 2, 4]}, "node_offsets are of 2 instances, edge_offsets of 1"),
        ({"node_offsets": [1, 2]}, "node_offsets must start at 0"),
        ({"edge_offsets": [0, 3, 2], "node_offsets": [0, 2, 2]}, "edge_offsets must start at 0 and never fall"),
        ({"edge_offsets": []}, "edge_offsets must start at 0"),
        ({"edge_offsets": [0, 2]}, "source: expected 2 values, one an edge, found 1"),
        ({"kind": [0, 0]}, "kind: expected 1 values, one an edge, found 2"),
        ({"target": [0.5]}, "target must be integers of one dimension, not float64"),
        ({"source": [[0]]}, r"source must be integers of one dimension, not int64 \(1, 1\)"),
    ],
)
def test_arrays_that_do_not_fit(change, said):
    good = {"node_offsets": [0, 2], "edge_offsets": [0, 1], "source": [0], "target": [1], "kind": [0]}
    assert edges.both_directions(**good, kinds=1, tied=True).source.tolist() == [0, 1]
    with pytest.raises(DataError, match=said):
        edges.both_directions(**{**good, **change}, kinds=1, tied=True)


def test_unsigned_input_does_not_wrap_around():
    small = [np.array(values, np.uint8) for values in ([0, 2, 4], [0, 1, 2], [0, 0], [1, 1], [0, 0])]
    columns = edges.fine_columns(*small, 1, True)
    assert columns["first_edge"].values[:, 0].tolist() == [0, 1, 0, 1]

"""Typed directed multigraphs, one an instance, as ragged columns.

All graphs lie one after the other, as in `columns.py`: `node_offsets` and `edge_offsets`, (instances + 1,) each, say
where those of an instance start; `source`, `target` are node numbers within their graph, `kind` the type of the edge.
Nothing here loops over graphs or edges in Python.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ampnet.datasets.columns import Column
from ampnet.errors import DataError


class Edges(NamedTuple):
    """Edges of all instances. offsets: (instances + 1,); the next four: (edges,), `instance` is the graph an edge is of;
    kinds: number of types."""

    offsets: np.ndarray
    instance: np.ndarray
    source: np.ndarray
    target: np.ndarray
    kind: np.ndarray
    kinds: int


def both_directions(node_offsets, edge_offsets, source, target, kind, kinds: int, tied: bool) -> Edges:
    """Every edge (s, t, k), and backward as (t, s, k) if tied, else as (t, s, kinds + k).

    The backward edges of an instance come after its forward ones, in the same order. A loop at a node gives two edges
    too, and edges that occur twice stay.

    Parameters
    ----------
    node_offsets, edge_offsets : (instances + 1,) integers, from 0 and non-decreasing.
    source, target : (edges,) integers from 0 to the nodes of their graph - 1.
    kind : (edges,) integers, 0..kinds-1.
    kinds : number of types.
    tied : whether backward edges have the types of forward ones.

    Returns
    -------
    Edges of int64, twice as many, of `kinds` types if tied, else 2 * `kinds`.

    Raises
    ------
    DataError : a node or type does not exist (names instance, edge within it, value), or arrays do not fit together.
    """
    node_offsets, edge_offsets = _offsets(node_offsets, "node_offsets"), _offsets(edge_offsets, "edge_offsets")
    if len(node_offsets) != len(edge_offsets):
        raise DataError(f"node_offsets are of {len(node_offsets) - 1} instances, edge_offsets of {len(edge_offsets) - 1}")
    given = {"source": source, "target": target, "kind": kind}
    source, target, kind = (_one_an_edge(array, edge_offsets[-1], name) for name, array in given.items())
    instance = np.repeat(np.arange(len(edge_offsets) - 1), np.diff(edge_offsets))
    nodes = np.diff(node_offsets)[instance]
    _check("source", "node", source, nodes, instance, edge_offsets)
    _check("target", "node", target, nodes, instance, edge_offsets)
    _check("type", "known type", kind, np.full(len(kind), kinds), instance, edge_offsets)

    forward = np.arange(len(source)) + edge_offsets[instance]  # after both directions of the instances before
    backward = np.arange(len(source)) + edge_offsets[instance + 1]

    def spread(ahead, back):
        both = np.empty(2 * len(source), np.int64)
        both[forward], both[backward] = ahead, back
        return both

    return Edges(
        offsets=2 * edge_offsets,
        instance=spread(instance, instance),
        source=spread(source, target),
        target=spread(target, source),
        kind=spread(kind, kind if tied else kind + kinds),
        kinds=kinds if tied else 2 * kinds,
    )


def fused_columns(node_offsets, edge_offsets, source, target, kind, kinds: int, tied: bool) -> dict[str, Column]:
    """Columns for message passing with one matrix product a type. Parameters and errors: as `both_directions`.

    Returns
    -------
    dict with, for each type k = 1..K of the edges in both directions, and zero rows where an instance has none of it:

    - `sources{k}` (rows, 1): nodes with an outgoing edge of this type, ascending, each once.
    - `edges{k}` (rows, 2): an edge of this type a row: the row of its source in `sources{k}`, and its target node.
    """
    edges = both_directions(node_offsets, edge_offsets, source, target, kind, kinds, tied)
    node_offsets = np.asarray(node_offsets, np.int64)
    node_number = _ranks(node_offsets)
    columns = {}
    for k in range(edges.kinds):
        mine = np.flatnonzero(edges.kind == k)
        instance = edges.instance[mine]
        is_source = np.zeros(node_offsets[-1], bool)
        is_source[node_offsets[instance] + edges.source[mine]] = True
        before = np.append(0, np.cumsum(is_source))  # sources among all nodes before this one
        row = before[node_offsets[instance] + edges.source[mine]] - before[node_offsets[instance]]
        name = f"sources{k + 1}"
        columns[name] = Column(node_number[is_source], before[node_offsets], name)
        name = f"edges{k + 1}"
        pairs = np.column_stack([row, edges.target[mine]])
        columns[name] = Column(pairs, np.searchsorted(mine, edges.offsets), name)
    return columns


def fine_columns(node_offsets, edge_offsets, source, target, kind, kinds: int, tied: bool) -> dict[str, Column]:
    """Columns for one message an edge. Parameters and errors: as `both_directions`.

    The edges of an instance are numbered from 0 in the order of their source nodes, and for the same source in the
    order of `both_directions`.

    Returns
    -------
    dict of columns of width 1. With one row an edge, in that order:

    - `edge_source`, `edge_target`: its nodes; `edge_type`: 0..K-1.
    - `edge_row`: its rank, from 0, among the edges of its type.
    - `edge_place`: its rank, from 1, among the edges into its target.

    One row a node: `first_edge`, the number of its first outgoing edge, 0 if it has none; `out_degree`; `in_degree`.
    `typed`: the numbers of all edges, type by type, ascending within one. `type_start`, K + 1 rows an instance: where each
    type starts in `typed`, and the end.
    """
    edges = both_directions(node_offsets, edge_offsets, source, target, kind, kinds, tied)
    node_offsets = np.asarray(node_offsets, np.int64)
    first_node = node_offsets[edges.instance]  # as nodes of all graphs counted on, sorting them keeps graphs together
    order = np.argsort(first_node + edges.source, kind="stable")
    source, target, kind = edges.source[order], edges.target[order], edges.kind[order]
    out_degree = np.bincount(first_node + source, minlength=node_offsets[-1])
    in_degree = np.bincount(first_node + target, minlength=node_offsets[-1])

    place = np.empty_like(target)
    place[np.argsort(first_node + target, kind="stable")] = _ranks(np.append(0, np.cumsum(in_degree))) + 1
    first_edge = np.cumsum(out_degree) - out_degree - np.repeat(edges.offsets[:-1], np.diff(node_offsets))
    group = edges.instance * edges.kinds + kind   # the type of an instance; instances keep their order in the sort
    by_type = np.argsort(group, kind="stable")
    sizes = np.bincount(group, minlength=(len(edges.offsets) - 1) * edges.kinds)
    edge_row = np.empty_like(kind)
    edge_row[by_type] = _ranks(np.append(0, np.cumsum(sizes)))
    starts = np.zeros((len(edges.offsets) - 1, edges.kinds + 1), np.int64)
    np.cumsum(sizes.reshape(-1, edges.kinds), axis=1, out=starts[:, 1:])

    by_edge = {"edge_source": source, "edge_target": target, "edge_type": kind, "edge_row": edge_row, "edge_place": place,
               "typed": _ranks(edges.offsets)[by_type]}
    by_node = {"first_edge": np.where(out_degree > 0, first_edge, 0), "out_degree": out_degree, "in_degree": in_degree}
    return {
        **{name: Column(values, edges.offsets, name) for name, values in by_edge.items()},
        **{name: Column(values, node_offsets, name) for name, values in by_node.items()},
        "type_start": Column(starts.reshape(-1), np.arange(len(starts) + 1) * (edges.kinds + 1), "type_start"),
    }


def _ranks(offsets: np.ndarray) -> np.ndarray:
    """0, 1, .. within each stretch between two offsets."""
    return np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))


def _offsets(given, name: str) -> np.ndarray:
    given = _integers(given, name)
    if given.size == 0 or given[0] != 0 or np.any(given[1:] < given[:-1]):
        raise DataError(f"{name} must start at 0 and never fall")
    return given


def _one_an_edge(given, edges: int, name: str) -> np.ndarray:
    given = _integers(given, name)
    if len(given) != edges:
        raise DataError(f"{name}: expected {edges} values, one an edge, found {len(given)}")
    return given


def _integers(given, name: str) -> np.ndarray:
    given = np.asarray(given)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):  # an empty list is float64
        raise DataError(f"{name} must be integers of one dimension, not {given.dtype} {given.shape}")
    return given.astype(np.int64)  # which subtraction needs


def _check(what: str, being: str, values: np.ndarray, limits: np.ndarray, instance: np.ndarray, offsets: np.ndarray):
    wrong = np.flatnonzero((values < 0) | (values >= limits))
    if wrong.size:
        e = wrong[0]
        i, limit = instance[e], limits[e]
        expected = f"0 to {limit - 1}" if limit else "none"
        raise DataError(f"instance {i}, edge {e - offsets[i]}: {what} {values[e]} is no {being}, expected {expected}")

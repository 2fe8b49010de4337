"""Graphs as the bAbI and QM9 data sets have them, from plain lists of edges."""

import numpy as np

from ampnet.datasets import Column, Instances, edges


def graph_columns(graphs, kinds, tied, annotation=2, seed=0):
    """graphs: (nodes, [(source, target, kind)]) each. Annotations, targets and answers are drawn."""
    rng = np.random.default_rng(seed)
    sizes = [nodes for nodes, _ in graphs]
    node_offsets = np.append(0, np.cumsum(sizes))
    edge_offsets = np.append(0, np.cumsum([len(es) for _, es in graphs]))
    source, target, kind = np.array([e for _, es in graphs for e in es], np.int64).reshape(-1, 3).T
    arguments = (node_offsets, edge_offsets, source, target, kind, kinds, tied)
    return Instances({
        "annotation": Column(rng.standard_normal((node_offsets[-1], annotation)), node_offsets, "annotation"),
        "target": Column(rng.standard_normal(len(graphs)), name="target"),
        "answer": Column(rng.integers(0, sizes), name="answer"),
        **edges.fused_columns(*arguments), **edges.fine_columns(*arguments)})


def random_graph(rng, nodes, kinds, edge_count):
    return nodes, [(int(rng.integers(nodes)), int(rng.integers(nodes)), int(rng.integers(kinds))) for _ in range(edge_count)]

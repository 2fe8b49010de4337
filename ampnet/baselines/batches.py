"""Batches out of ragged columns, in NumPy: instances that may share one, trees level by level, graphs joined to one.

What can be known of each instance is worked out once, when a `Forest` or a `GraphSet` is made; a batch is then a few gathers.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np


def rows_of(offsets, numbers):
    """(where the rows of these instances lie, one instance after the other; how many each has)."""
    sizes = offsets[numbers + 1] - offsets[numbers]
    ends = np.cumsum(sizes)
    return np.arange(ends[-1]) + np.repeat(offsets[numbers] - ends + sizes, sizes), sizes


def groups_of_equal_length(offsets):
    """Numbers of the instances of each length, ascending."""
    lengths = np.diff(offsets)
    return [np.flatnonzero(lengths == length) for length in np.unique(lengths)]


def cut(numbers, size):
    """Numbers in batches of `size`; the last may be short."""
    return [numbers[start:start + size] for start in range(0, len(numbers), size)]


class Levels(NamedTuple):
    """The nodes of some trees level by level, leaves first: of each level all can be computed at once.

    words: ids of the leaves; labels: of all nodes; levels: (first node, end, left children, right children) of each level
    above the leaves.
    """

    words: np.ndarray
    labels: np.ndarray
    levels: list

    @property
    def leaves(self):
        return len(self.words)


class Forest:
    """Binary trees: the columns `words`, `label`, `left` and `right` of `Instances`, and the height of every node."""

    def __init__(self, instances):
        self.word_offsets, self.offsets = instances["words"].offsets, instances["label"].offsets
        self.words, self.labels, self.left, self.right = (
            instances[name].integers()[:, 0].astype(np.int64) for name in ("words", "label", "left", "right"))
        first = np.repeat(self.offsets[:-1], np.diff(self.offsets))
        self.height = _heights(self.left + first, self.right + first, np.flatnonzero(self.left >= 0))

    def levels(self, numbers):
        """The trees of these numbers as `Levels`."""
        nodes, sizes = rows_of(self.offsets, numbers)
        height = self.height[nodes]
        order = np.argsort(height, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        first = np.repeat(np.cumsum(sizes) - sizes, sizes)
        ordered = nodes[order]
        left, right = self.left[ordered] + first[order], self.right[ordered] + first[order]
        levels = [(start, end, place[left[start:end]], place[right[start:end]])
                  for start, end in pairwise(np.cumsum(np.bincount(height)).tolist())]
        return Levels(self.words[rows_of(self.word_offsets, numbers)[0]], self.labels[ordered], levels)


def _heights(left, right, inner):
    """(nodes,) longest way down from each node; the children of the nodes `inner` are at their numbers in `left`, `right`."""
    height = np.zeros(len(left), np.int64)
    left, right = left[inner], right[inner]
    while True:   # as often as the highest tree is high
        found = 1 + np.maximum(height[left], height[right])
        if np.array_equal(found, height[inner]):
            return height
        height[inner] = found


class Graphs(NamedTuple):
    """Some graphs as one.

    annotation: (nodes, width); graph: (nodes,) which graph each is of; source, target, kind: (edges,), the type from 0.
    """

    annotation: np.ndarray
    graph: np.ndarray
    source: np.ndarray
    target: np.ndarray
    kind: np.ndarray


class GraphSet:
    """Typed graphs out of the column `annotation` and those of `datasets.edges.fused_columns`, for types 1 to `types`."""

    def __init__(self, instances, types):
        self.annotation, self.offsets = instances["annotation"].values, instances["annotation"].offsets
        found = [self._of_type(instances, k) for k in range(1, types + 1)]
        instance, source, target, kind = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.argsort(instance, kind="stable")
        self.source, self.target, self.kind = source[order], target[order], kind[order]
        self.edge_offsets = np.append(0, np.cumsum(np.bincount(instance, minlength=len(instances))))

    @staticmethod
    def _of_type(instances, k):
        """(graph, source, target, type from 0) of each edge of type k; nodes are numbered within their graph."""
        sources, edges = instances[f"sources{k}"], instances[f"edges{k}"]
        instance = np.repeat(np.arange(len(edges)), np.diff(edges.offsets))
        row, target = edges.integers().astype(np.int64).T
        source = sources.integers()[:, 0].astype(np.int64)[sources.offsets[instance] + row]
        return instance, source, target, np.full(len(target), k - 1)

    def join(self, numbers):
        """The graphs of these numbers as `Graphs`."""
        nodes, sizes = rows_of(self.offsets, numbers)
        edges, edge_counts = rows_of(self.edge_offsets, numbers)
        first = np.repeat(np.cumsum(sizes) - sizes, edge_counts)
        return Graphs(self.annotation[nodes], np.repeat(np.arange(len(numbers)), sizes),
                      self.source[edges] + first, self.target[edges] + first, self.kind[edges])

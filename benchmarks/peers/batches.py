"""Batches for peers out of our ragged columns, in NumPy. They are made ahead and not timed."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np


def consecutive(count, size):
    """Numbers of instances in whole batches, in the order of the data."""
    return [np.arange(start, start + size) for start in range(0, count - size + 1, size)]


def of_equal_length(offsets, size):
    """Whole batches of instances that have equally many rows, shuffled."""
    lengths, found = np.diff(offsets), []
    for length in np.unique(lengths):
        same = np.flatnonzero(lengths == length)
        found += [same[batch] for batch in consecutive(len(same), size)]
    np.random.default_rng(0).shuffle(found)
    return found


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


def by_level(sample, numbers):
    words, label, left, right = (sample.arrays(name, numbers) for name in ("words", "label", "left", "right"))
    first = np.append(0, np.cumsum([len(tree) for tree in label]))
    left, right = ([side[:, 0].astype(int) for side in sides] for sides in (left, right))
    height = np.concatenate([_heights(*sides) for sides in zip(left, right, strict=True)])
    left, right = (np.concatenate([side + start for side, start in zip(sides, first, strict=False)]) for sides in (left, right))
    order = np.argsort(height, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    ends = np.cumsum(np.bincount(height)).tolist()
    levels = [(start, end, place[left[order[start:end]]], place[right[order[start:end]]])
              for start, end in pairwise(ends)]
    return Levels(whole(words), whole(label)[order], levels)


def _heights(left, right):
    """Of each node of a tree; children have smaller numbers than their parents."""
    height = np.zeros(len(left), int)
    for node in np.flatnonzero(left >= 0):
        height[node] = 1 + max(height[left[node]], height[right[node]])
    return height


class Graphs(NamedTuple):
    """Some graphs as one.

    annotation: (nodes, width); graph: (nodes,) which graph each is of; sources: by edge type the nodes with such an edge, each
    once; rows, targets: by edge type for each edge the row of its source in `sources`, and its target.
    """

    annotation: np.ndarray
    graph: np.ndarray
    sources: list
    rows: list
    targets: list

    @property
    def edges(self):
        """(source, target, type) of all edges, type by type."""
        sources = [s[r] for s, r in zip(self.sources, self.rows, strict=True)]
        kinds = np.repeat(np.arange(len(sources)), [len(s) for s in sources])
        return np.concatenate(sources), np.concatenate(self.targets), kinds


def join_graphs(sample, numbers):
    annotation, types = sample.arrays("annotation", numbers), range(1, sample.meta["edge_types"] + 1)
    sizes = [len(a) for a in annotation]
    first = np.append(0, np.cumsum(sizes))[:-1]
    sources, rows, targets = [], [], []
    for k in types:
        own, pairs = sample.arrays(f"sources{k}", numbers), sample.arrays(f"edges{k}", numbers)
        before = np.append(0, np.cumsum([len(s) for s in own]))[:-1]
        edges = [len(p) for p in pairs]
        sources.append(whole(own) + np.repeat(first, [len(s) for s in own]))
        rows.append(np.concatenate(pairs)[:, 0].astype(int) + np.repeat(before, edges))
        targets.append(np.concatenate(pairs)[:, 1].astype(int) + np.repeat(first, edges))
    return Graphs(np.concatenate(annotation), np.repeat(np.arange(len(numbers)), sizes), sources, rows, targets)


def whole(arrays):
    """Columns of width 1, one after the other, as integers."""
    return np.concatenate(arrays)[:, 0].astype(int)

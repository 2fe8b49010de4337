"""Instances as batches of tensors: what can be prepared once is when a feed is made, batches are made when asked for."""

import numpy as np
import torch

from .batches import Forest, GraphSet, cut, groups_of_equal_length


class Feed:
    """Base of feeds. groups: arrays of numbers of instances that may share a batch; targets: of all instances."""

    def __init__(self, groups, targets):
        self.groups, self.targets = groups, targets

    def shuffled(self, size, rng):
        """The numbers of each batch of an epoch: dealt out anew within groups, and the batches in any order."""
        batches = [batch for group in self.groups for batch in cut(rng.permutation(group), size)]
        return [batches[i] for i in rng.permutation(len(batches))] if len(self.groups) > 1 else batches

    def in_order(self, size):
        return [batch for group in self.groups for batch in cut(group, size)]

    def batch(self, numbers):
        """(what the model takes, the targets)."""
        raise NotImplementedError


class Images(Feed):
    """Rows of `pixels`, whatever batches they lie in."""

    def __init__(self, instances):
        super().__init__([np.arange(instances.examples)], whole(instances["label"]))
        self.pixels = torch.from_numpy(instances["pixels"].values)

    def batch(self, numbers):
        numbers = torch.from_numpy(numbers)
        return (self.pixels[numbers],), self.targets[numbers]


class Lists(Feed):
    """Batches of lists of equal length, tokens (length, lists)."""

    def __init__(self, instances):
        self.offsets = instances["tokens"].offsets
        super().__init__(groups_of_equal_length(self.offsets), whole(instances["label"]))
        self.tokens = whole(instances["tokens"])

    def batch(self, numbers):
        starts = self.offsets[numbers]
        length = self.offsets[numbers[0] + 1] - starts[0]
        return (self.tokens[torch.from_numpy(np.arange(length)[:, None] + starts)],), self.targets[torch.from_numpy(numbers)]


class Trees(Feed):
    """Trees as `prepare` makes them of a `Forest` and numbers; targets are labels of nodes."""

    def __init__(self, instances, prepare):
        super().__init__([np.arange(len(instances))], whole(instances["label"]))
        self.forest, self.prepare = Forest(instances), prepare

    def batch(self, numbers):
        return self.prepare(self.forest, numbers)


class GraphFeed(Feed):
    """Graphs joined to one, as `prepare` makes them of `Graphs` and their count; targets: the column `answer` or `target`."""

    def __init__(self, instances, types, prepare, targets):
        column = instances[targets]
        targets = whole(column) if targets == "answer" else torch.from_numpy(column.values[:, 0])
        super().__init__([np.arange(len(instances))], targets)
        self.graphs, self.prepare = GraphSet(instances, types), prepare

    def batch(self, numbers):
        return self.prepare(self.graphs.join(numbers), len(numbers)), self.targets[torch.from_numpy(numbers)]


def whole(column):
    """A column of width 1 as integers, (rows,)."""
    return torch.from_numpy(column.integers()[:, 0].astype(np.int64))

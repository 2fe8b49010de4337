"""Which nodes lie in a loop of the graph: a message that leaves such a node can come back to it."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


def in_loops(successors):
    """For each node whether it is in a loop; successors: for each node the numbers of those that it feeds."""
    count = len(successors)
    places = np.repeat(np.arange(count), [len(s) for s in successors]), np.concatenate(successors).astype(int)
    _, part = connected_components(coo_array((np.ones(len(places[0])), places), (count, count)), connection="strong")
    return np.bincount(part)[part] > 1

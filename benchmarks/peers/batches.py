"""Which instances peers get in a batch: whole batches, the same in every run. They are made ahead and not timed."""

import numpy as np

from ampnet.baselines.batches import cut, groups_of_equal_length


def consecutive(count, size):
    """Numbers of instances in whole batches, in the order of the data."""
    return cut(np.arange(count - count % size), size)


def of_equal_length(offsets, size):
    """Whole batches of instances that have equally many rows, shuffled."""
    found = [same[batch] for same in groups_of_equal_length(offsets) for batch in consecutive(len(same), size)]
    np.random.default_rng(0).shuffle(found)
    return found


def whole(arrays):
    """Columns of width 1, one after the other, as integers."""
    return np.concatenate(arrays)[:, 0].astype(int)

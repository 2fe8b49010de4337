"""The perceptron and the recurrent network in PyTorch."""

from itertools import pairwise

import numpy as np
from torch.nn.functional import cross_entropy

from ampnet.baselines import dense
from ampnet.baselines.feeds import Images, Lists

from .batches import of_equal_length
from .contest import Batch
from .torch_peer import contestant

FORMS = {"concatenated": dense.Concatenated, "split": dense.Split, "library": dense.Library}


def perceptron(name, sample, ours, work):
    """An instance is a batch of images."""
    feed, offsets = Images(sample.instances), sample.instances["pixels"].offsets
    batches = [Batch([i], int(end - start), feed.batch(np.arange(start, end)))
               for i, (start, end) in enumerate(pairwise(offsets))]
    return contestant(name, dense.Perceptron(ours), cross_entropy, batches, work.optimizer, work.lr)


def recurrent(name, sample, ours, work, form):
    feed = Lists(sample.instances)
    batches = [Batch(numbers, len(numbers), feed.batch(numbers)) for numbers in of_equal_length(feed.offsets, work.batch)]
    return contestant(name, FORMS[form](ours), cross_entropy, batches, work.optimizer, work.lr)

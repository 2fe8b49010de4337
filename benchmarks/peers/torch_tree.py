"""The binary Tree-LSTM in PyTorch, three ways: a node at a time, a level at a time, and that with a backward by hand."""

from torch.nn.functional import cross_entropy

from ampnet.baselines import tree
from ampnet.baselines.feeds import Trees

from .batches import consecutive
from .contest import Batch
from .torch_peer import contestant

FORMS = {"recursive": tree.Recursive, "levels": tree.ByLevel, "by hand": tree.ByHand}


def tree_lstm(name, sample, ours, work, form):
    model = FORMS[form](ours)
    feed = Trees(sample.instances, model.prepare)
    batches = [Batch(numbers, len(numbers), feed.batch(numbers)) for numbers in consecutive(len(sample.instances), work.batch)]

    def loss(logits, labels):
        """A sum over the nodes of a tree, and a mean over trees."""
        return cross_entropy(logits, labels, reduction="sum") / work.batch

    return contestant(name, model, loss, batches, work.optimizer, work.lr)

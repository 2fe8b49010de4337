"""List reduction with the variable-length recurrent network; the data are generated."""

from .task import Task


def load_data(folder, config):
    from ..datasets import catalog
    return catalog.load("list-reduction", folder, config.settings.seed)


def build(sizes, meta):
    from ..graphs import rnn
    return rnn(meta["vocab"], meta["classes"], sizes["embedding"], sizes["hidden"])


TASK = Task("list-reduction", ("hidden", "embedding"), load_data, build)

"""List reduction with the variable-length recurrent network; the data are generated."""

from ..training.config import text, whole
from .task import Task


def load_data(folder, config):
    from ..datasets import catalog
    return catalog.load("list-reduction", folder, config.settings.seed)


def build(options, meta):
    from ..graphs import rnn
    return rnn(meta["vocab"], meta["classes"], options["embedding"], options["hidden"], options["cell"])


TASK = Task("list-reduction", {"hidden": whole, "embedding": whole, "cell": text}, load_data, build)

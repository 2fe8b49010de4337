"""bAbI task 15, basic deduction, with a gated graph network that picks the node which answers."""

from ..training.config import whole
from .task import Task


def load_data(folder, config):
    from ..datasets import babi, catalog
    place = catalog.find_optional("babi15", folder)
    return babi.load(place, config.model["fold"], config.model["graphs"], config.model["nodes"], seed=config.settings.seed)


def build(options, meta):
    from ..graphs import ggnn
    return ggnn(meta["annotation"], meta["edge_types"], options["hidden"], options["steps"], "select")


TASK = Task("babi15", {"hidden": whole, "steps": whole, "fold": whole, "graphs": whole, "nodes": whole}, load_data, build)

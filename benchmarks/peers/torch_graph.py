"""The gated graph network in PyTorch: a product for each edge type, or one for all, gathered by edge or by a dense matrix."""

from ampnet.baselines import graph
from ampnet.baselines.feeds import GraphFeed
from ampnet.baselines.objectives import ACCURACY, ERROR

from .batches import consecutive
from .contest import Batch
from .torch_peer import contestant

FORMS = {"by type": graph.ByType, "gathered": graph.Gathered, "dense": graph.Dense}


def graph_network(name, sample, ours, work, form, batch):
    readout, objective = (graph.Select, ACCURACY) if "answer" in sample.instances.columns else (graph.Regress, ERROR)
    types = sample.meta["edge_types"]
    model = graph.GraphNetwork(ours, sample.options["steps"], types, FORMS[form], readout)
    feed = GraphFeed(sample.instances, types, model.prepare)
    batches = [Batch(numbers, len(numbers), feed.batch(numbers)) for numbers in consecutive(len(sample.instances), batch)]
    return contestant(name, model, objective.loss, batches, work.optimizer, work.lr)

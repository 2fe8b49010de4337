"""The gated graph network in PyTorch: a product for each edge type, or one for all, gathered by edge or by a dense matrix."""

from ampnet.baselines import graph
from ampnet.baselines.feeds import GraphFeed
from ampnet.baselines.objectives import ACCURACY, ERROR

from .batches import consecutive
from .contest import Batch
from .torch_peer import contestant

FORMS = {"by type": graph.ByType, "gathered": graph.Gathered, "dense": graph.Dense}
READOUTS = (("answer", graph.Select, ACCURACY), ("target", graph.Regress, ERROR))


def graph_network(name, sample, ours, work, form, batch):
    targets, readout, objective = next(kind for kind in READOUTS if kind[0] in sample.instances.columns)
    types = sample.meta["edge_types"]
    model = graph.GraphNetwork(ours, sample.options["steps"], types, FORMS[form], readout)
    feed = GraphFeed(sample.instances, types, model.prepare, targets)
    batches = [Batch(numbers, len(numbers), feed.batch(numbers)) for numbers in consecutive(len(sample.instances), batch)]
    return contestant(name, model, objective.loss, batches, work.optimizer, work.lr)

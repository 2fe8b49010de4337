"""How each task is trained in PyTorch: the model in its fastest form, its batches, and where that departs from our options.

The options are those of the task's TOML, but for what `Recipe` names. A loss is a mean over the targets of a batch.

    task             an update after          rate   why
    mnist            `batch` images           1      the updates of ours
    list-reduction   100 lists of one length  3      ours updates its cell after 17 lists; with rate 1 two epochs end at 83 %
                                                     instead of 92 %, and 5 is unsteady: 7 epochs to 97 % instead of 6
    sentiment        25 trees                 1      as often as our cells; to Adagrad the scale of a loss makes no difference
    babi15           10 graphs                1      as often as ours
    qm9              25 molecules             1      as often as ours; 50 at rate 1.5 or 2 take 11 to 15 % less processor time
                                                     but end 1.4 % higher (4 epochs of 12,000): neither is clearly ahead
"""

from collections.abc import Callable
from dataclasses import dataclass

from .. import graphs
from ..errors import SettingError
from .dense import Perceptron, Split
from .feeds import GraphFeed, Images, Lists, Trees
from .graph import ByType, Gathered, GraphNetwork, Regress, Select
from .objectives import ACCURACY, ERROR, Objective
from .optimizers import takes_sparse
from .tree import ByHand


@dataclass(frozen=True)
class Recipe:
    """How one task is trained.

    graph: (model options, meta of the data) -> our graph, of which the initial values are taken; model: (those by name,
    RunConfig, meta) -> Module; feed: (Instances, model, meta) -> Feed; batch: examples an update, None for the model option
    `batch`; evaluation: examples a batch of an evaluation; rate: what our learning rate is multiplied by; unit: meta -> what
    an error of 1 is in the unit that the metric is told in.
    """

    graph: Callable
    model: Callable
    feed: Callable
    objective: Objective
    batch: int | None
    evaluation: int
    rate: float = 1.0
    unit: Callable = lambda meta: 1.0


def _mlp(options, meta):
    return graphs.mlp(meta["width"], meta["classes"], options["hidden"], options["layers"])


def _rnn(options, meta):
    if options["cell"] != "relu":
        raise SettingError(f"the PyTorch baseline of list-reduction has the cell 'relu' only, got {options['cell']!r}")
    return graphs.rnn(meta["vocab"], meta["classes"], options["embedding"], options["hidden"])


def _tree_lstm(options, meta):
    return graphs.tree_lstm(meta["vocab"], meta["classes"], options["embedding"], options["hidden"], vectors=meta["vectors"])


def _tree_model(initial, config, meta):
    s = config.settings
    return ByHand(initial, config.model["dropout"], takes_sparse(s.optimizer, s.weight_decay, s.clip))


def _selecting(options, meta):
    return graphs.ggnn(meta["annotation"], meta["edge_types"], options["hidden"], options["steps"], "select")


def _regressing(options, meta):
    return graphs.ggnn(meta["annotation"], meta["edge_types"], options["hidden"], options["steps"], "regression", meta["std"])


def _graph_model(edges, readout):
    def make(initial, config, meta):
        return GraphNetwork(initial, config.model["steps"], meta["edge_types"], edges, readout)
    return make


def _graph_feed(targets):
    return lambda instances, model, meta: GraphFeed(instances, meta["edge_types"], model.prepare, targets)


RECIPES = {
    "mnist": Recipe(
        _mlp, lambda initial, config, meta: Perceptron(initial), lambda instances, model, meta: Images(instances), ACCURACY,
        batch=None, evaluation=1000),
    "list-reduction": Recipe(
        _rnn, lambda initial, config, meta: Split(initial), lambda instances, model, meta: Lists(instances), ACCURACY,
        batch=100, evaluation=1000, rate=3.0),
    "sentiment": Recipe(
        _tree_lstm, _tree_model, lambda instances, model, meta: Trees(instances, model.prepare), ACCURACY,
        batch=25, evaluation=200),
    "babi15": Recipe(
        _selecting, _graph_model(Gathered, Select), _graph_feed("answer"), ACCURACY,
        batch=10, evaluation=250),
    "qm9": Recipe(
        _regressing, _graph_model(ByType, Regress), _graph_feed("target"), ERROR,
        batch=25, evaluation=128, unit=lambda meta: meta["std"]),
}

"""The works: what is trained, how ours trains it, and who else does."""

from collections.abc import Callable
from dataclasses import dataclass, field

from . import flops, samples


@dataclass(frozen=True)
class Peer:
    """A function `make(name, sample, our initial values, work, **options)` -> Contestant, in a module of its library."""

    name: str
    module: str
    make: str
    options: dict = field(default_factory=dict)

    @property
    def library(self):
        return self.name.split()[0]


@dataclass(frozen=True)
class Work:
    """What is trained, and how.

    task, options: whose model, with which options; sample, flops: functions in `samples` and `flops`; keys, frequency,
    node_frequencies: our max_active_keys and min_update_frequency, and that of some nodes; batch: instances that peers update
    after, if they do not name another number.

    Our frequencies count messages, of which a node gets several from an instance where it is in a loop; the graph networks'
    are multiplied by their steps. They are so small that every node makes at least as many updates as peers do: less than what
    a batch sends, as a call may bring more messages than are missing. Of two replicas each sees half the instances, and
    updates after half as many messages, but not after less than one.
    """

    name: str
    title: str
    task: str
    options: dict
    sample: Callable
    flops: Callable
    optimizer: str
    lr: float
    keys: int
    frequency: int
    batch: int
    peers: list
    node_frequencies: dict = field(default_factory=dict)
    examples: str = "instances"


def torch_dense(make, name="eager", **options):
    return Peer(f"torch {name}", "torch_dense", make, options)


def jax_model(make, name="jit", **options):
    return Peer(f"jax {name}", "jax_models", make, options)


def graph_peers(forms, batches):
    """Every form with every batch; `forms` are (library, form)."""
    module = {"torch": "torch_graph", "jax": "jax_models"}
    compiled = {"torch": "", "jax": " jit"}
    return [Peer(f"{library}{compiled[library]} {form}" + (f", {size} a batch" if size > 1 else ""), module[library],
                 "graph_network", {"form": form, "batch": size})
            for library, form in forms for size in batches[library]]


RECURRENT = [torch_dense("recurrent", "eager concatenated", form="concatenated"),
             torch_dense("recurrent", "eager split", form="split"),
             torch_dense("recurrent", "nn.RNN", form="library"), jax_model("recurrent")]
TREES = [Peer("torch eager recursive", "torch_tree", "tree_lstm", {"form": "recursive"}),
         Peer("torch by level", "torch_tree", "tree_lstm", {"form": "levels"}),
         Peer("torch by level, backward by hand", "torch_tree", "tree_lstm", {"form": "by hand"})]
GATHERED = [("torch", "by type"), ("torch", "gathered"), ("jax", "gathered")]
DENSE = [("torch", "dense"), ("jax", "dense")]
LISTS = dict(task="list-reduction", options={"hidden": 128, "embedding": 128}, sample=samples.lists, flops=flops.recurrent,
             optimizer="sgd", lr=0.001)
SST = dict(task="sentiment", sample=samples.trees, flops=flops.tree_lstm, optimizer="sgd", lr=0.001)
SST_OPTIONS = {"embeddings": "none", "embedding": 128, "dropout": 0.0}
QM9 = dict(task="qm9", options={"hidden": 100, "steps": 4}, sample=samples.molecules, flops=flops.graph_network,
           optimizer="adam", lr=1e-3)

WORKS = {work.name: work for work in (
    Work("mnist", "perceptron 784-784-784-784-10, batches of 100 images", "mnist", {}, samples.images, flops.perceptron,
         "sgd", 0.1, keys=8, frequency=1, batch=1, examples="images",
         peers=[torch_dense("perceptron"), jax_model("perceptron")]),
    Work("list-reduction", "RNN, embedding 128, hidden 128; peers: 100 lists of equal length a batch", **LISTS,
         keys=100, frequency=500, batch=100, node_frequencies={"classifier": 55}, peers=RECURRENT),   # 6 tokens a list
    Work("list-reduction-1", "RNN, embedding 128, hidden 128, one list at a time", **LISTS, keys=1, frequency=1, batch=1,
         node_frequencies={"embedding": 5, "cell": 5}, peers=RECURRENT),   # of 6 tokens on average
    Work("tree-lstm", "Tree-LSTM, embedding 128, hidden 128; peers: 25 trees a batch", **SST,
         options={**SST_OPTIONS, "hidden": 128}, keys=25, frequency=420, batch=25, peers=TREES),
    Work("tree-lstm-1", "Tree-LSTM, embedding 128, hidden 128, one tree at a time", **SST,
         options={**SST_OPTIONS, "hidden": 128},
         keys=1, frequency=16, batch=1, peers=[*TREES, jax_model("tree_lstm", "jit scan over branches, padded")]),
    Work("tree-lstm-300", "Tree-LSTM, embedding 128, hidden 300; peers: 25 trees a batch", **SST,
         options={**SST_OPTIONS, "hidden": 300}, keys=25, frequency=420, batch=25, peers=TREES),
    Work("babi", "gated graph network, hidden 10, 2 steps, one graph at a time", "babi15", {"hidden": 10, "steps": 2},
         samples.deductions, flops.graph_network, "adam", 1e-3, keys=1, frequency=1, batch=1,
         peers=graph_peers([*DENSE, *GATHERED], {"torch": [1], "jax": [1]})),
    Work("qm9", "gated graph network, hidden 100, 4 steps", **QM9, keys=50, frequency=45, batch=50,
         node_frequencies={"layer": 40, "output": 40},   # of a molecule a row each, so that a call brings many
         peers=graph_peers(GATHERED, {"torch": [20, 50, 128], "jax": [20, 50]})),
    Work("qm9-1", "gated graph network, hidden 100, 4 steps, one molecule at a time", **QM9, keys=1, frequency=1, batch=1,
         peers=graph_peers([*DENSE, *GATHERED], {"torch": [1], "jax": [1]})),
)}

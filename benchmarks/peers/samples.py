"""What the works train on: a sample of each task's training instances, large enough that no cache holds it all."""

from dataclasses import dataclass

import numpy as np

from ampnet.datasets import Column, Instances, list_reduction
from ampnet.datasets.columns import batched
from ampnet.datasets.edges import fused_columns
from ampnet.errors import DataError
from ampnet.experiments import TASKS

IMAGES, LISTS, TREES, MOLECULES, GRAPHS = 6_000, 10_000, 1_000, 1_280, 1_000
KINDS = 27   # of a deduction graph, with as many individuals: 54 nodes, 54 facts


@dataclass
class Sample:
    """instances: to train on; options: of the task's model; meta: of the data; note: what a reader must know of them."""

    instances: Instances
    options: dict
    meta: dict
    note: str

    def arrays(self, name, numbers):
        """The rows of a column, instance by instance."""
        return [self.instances[name][i] for i in numbers]


def images(task, options, folder):
    """MNIST, or noise of its shape where there are no files: the arithmetic is the same."""
    config = TASKS[task].resolve((None, options))
    try:
        data = TASKS[task].load_data(folder, config)
        return Sample(data.train.take(IMAGES), config.model, data.meta, "MNIST")
    except DataError:
        rng = np.random.default_rng(0)
        noise = batched({"pixels": rng.random((IMAGES, 784), np.float32), "label": rng.integers(0, 10, IMAGES)},
                        config.model["batch"])
        return Sample(noise, config.model, {"width": 784, "classes": 10}, "noise for images, as there are no files of MNIST")


def lists(task, options, folder):
    config = TASKS[task].resolve((None, options))
    data = list_reduction.load(0, LISTS, 1)
    return Sample(data.train, config.model, data.meta, "generated lists of 2 to 10 tokens")


def trees(task, options, folder):
    return _strided(task, options, folder, TREES, "trees of the Stanford Sentiment Treebank")


def molecules(task, options, folder):
    """Taken from all over the data set: its first molecules are small."""
    return _strided(task, options, folder, MOLECULES, "molecules of QM9")


def _strided(task, options, folder, count, what):
    config = TASKS[task].resolve((None, options))
    data = TASKS[task].load_data(folder, config)
    numbers = np.arange(count) * len(data.train) // count
    shuffled = np.random.default_rng(0).permutation(numbers)   # neighbours are alike
    return Sample(choose(data.train, shuffled), config.model, data.meta, f"{count:,} {what}")


def deductions(task, options, folder):
    """bAbI 15 at the size that the AMPNet paper gives: 54 nodes, 108 edges.

    A graph of bAbI 15 has four kinds, each of which fears another, and an individual of each kind; its question is what an
    individual fears. Here it has 27 kinds, so that every node has a fact; backward, edges are of types of their own.
    """
    config, rng, every = TASKS[task].resolve((None, options)), np.random.default_rng(0), np.arange(KINDS)
    nodes = rng.permuted(np.tile(np.arange(2 * KINDS), (GRAPHS, 1)), axis=1)
    individuals, kinds = nodes[:, :KINDS], nodes[:, KINDS:]
    feared = np.take_along_axis(kinds, (every + rng.integers(1, KINDS, (GRAPHS, KINDS))) % KINDS, axis=1)
    asked = rng.integers(0, KINDS, GRAPHS)
    annotation = np.zeros((GRAPHS, 2 * KINDS), np.float32)
    annotation[np.arange(GRAPHS), individuals[np.arange(GRAPHS), asked]] = 1
    offsets = np.arange(GRAPHS + 1) * 2 * KINDS   # of nodes, and of facts
    source, target = np.hstack([individuals, kinds]).ravel(), np.hstack([kinds, feared]).ravel()
    fact = np.tile(np.repeat([0, 1], KINDS), GRAPHS)   # is, has fear of
    data = Instances({
        "annotation": Column(annotation.reshape(-1), offsets, "annotation"),
        "answer": Column(feared[np.arange(GRAPHS), asked], name="answer"),
        **fused_columns(offsets, offsets, source, target, fact, 2, False),
    })
    return Sample(data, config.model, {"annotation": 1, "edge_types": 4}, f"{GRAPHS:,} generated graphs of 54 nodes, 108 edges")


def choose(instances, numbers):
    """The instances of these numbers, in this order."""
    columns = {}
    for name, column in instances.columns.items():
        rows = [column[i] for i in numbers]
        columns[name] = Column(np.concatenate(rows), np.append(0, np.cumsum([len(r) for r in rows])), name)
    return Instances(columns)

"""Small data sets and configurations of all tasks, as `Task.load_data` gives them but without any file."""

import numpy as np
import pytest

from ampnet.datasets import Column, Dataset, Instances, babi, list_reduction
from ampnet.datasets.columns import batched
from ampnet.experiments import find
from tests.graphs import torch_models

SMALL = {
    "mnist": {"hidden": 16, "layers": 3, "batch": 20},
    "list-reduction": {"hidden": 16, "embedding": 8},
    "sentiment": {"hidden": 7, "embedding": 6, "embeddings": "none", "dropout": 0.3},
    "babi15": {"nodes": 10, "graphs": 30},
    "qm9": {"hidden": 8, "steps": 3},
}


def _images():
    """Bright in the column of their label, under noise."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 300)
    pixels = 0.5 * rng.random((300, 12)) + 0.5 * np.repeat(np.eye(4), 3, axis=1)[labels]
    whole = batched({"pixels": pixels, "label": labels}, 20)
    return Dataset("mnist", whole.take(230), whole.take(100), meta={"width": 12, "classes": 4})


def _lists():
    return list_reduction.load(seed=1, train=600, valid=200)


def _trees():
    """Leaves whose label follows from their word, and branches of label 0."""
    rng = np.random.default_rng(0)
    trees = torch_models.trees(tuple(rng.integers(1, 9, 120)))
    labels, is_leaf = np.zeros(trees["label"].rows, int), trees["left"].values[:, 0] < 0
    labels[is_leaf] = trees["words"].values[:, 0] % 5
    trees = Instances(trees.columns | {"label": Column(labels, trees["label"].offsets, "label")})
    return Dataset("sentiment", trees, trees.take(40), meta={"vocab": 12, "classes": 5, "vectors": None})


def _questions():
    return babi.load(None, graphs=30, nodes=10, seed=0)


def _molecules():
    rng = np.random.default_rng(0)
    graphs = torch_models.graphs(True, nodes=tuple(rng.integers(1, 8, 90)))
    meta = {"annotation": 3, "edge_types": 3, "std": 1.5, "ratio_scale": 0.0665}
    return Dataset("qm9", graphs, graphs.take(30), meta=meta)


DATA = {"mnist": _images, "list-reduction": _lists, "sentiment": _trees, "babi15": _questions, "qm9": _molecules}


@pytest.fixture(scope="session")
def small():
    """Task name, further options -> (RunConfig, Dataset)."""
    made = {}

    def of(name, **options):
        data = made.setdefault(name, DATA[name]())
        return find(name).resolve((None, {**SMALL[name], **options})), data

    return of


@pytest.fixture(params=SMALL)
def task(request):
    return request.param

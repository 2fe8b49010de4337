"""Sentiment of film reviews with a binary Tree-LSTM: five classes at every node of a tree."""

from ..training.config import share, text, whole
from .task import Task


def load_data(folder, config):
    from ..datasets import catalog, sentiment
    place = catalog.locate("sentiment", folder)
    return sentiment.load(place, _vectors(config.model["embeddings"], place), config.settings.seed)


def _vectors(choice, place):
    """First values of the embedding: "auto" those beside the data, if there are any; "none"; or a file."""
    from ..datasets import glove
    if choice == "none":
        return None
    path = glove.find(place.parent) if choice == "auto" else choice
    return None if path is None else glove.read(path)


def build(options, meta):
    from ..graphs import tree_lstm
    return tree_lstm(meta["vocab"], meta["classes"], options["embedding"], options["hidden"], options["dropout"],
                     meta["vectors"])


def metrics(meta):
    """Beside the all-node accuracy of five classes: root accuracy, and both for two classes.

    Two classes: nodes that are not neutral; positive when the classes 3 and 4 together are likelier than 0 and 1.
    """
    import numpy as np

    def compute(predictions, instances):
        logits = predictions["loss"].astype(np.float64)
        labels = instances["label"].values[:, 0].astype(int)
        roots = instances["label"].offsets[1:] - 1
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        positive, clear = p[:, 3] + p[:, 4] > p[:, 0] + p[:, 1], labels != 2
        right, right_sign = logits.argmax(axis=1) == labels, positive == (labels > 2)
        return {"root_accuracy": _mean(right[roots]),
                "binary_accuracy": _mean(right_sign[clear]),
                "root_binary_accuracy": _mean(right_sign[roots][clear[roots]])}
    return compute


def _mean(values):
    return float(values.mean()) if len(values) else 0.0


TASK = Task("sentiment", {"hidden": whole, "embedding": whole, "embeddings": text, "dropout": share}, load_data, build, metrics)

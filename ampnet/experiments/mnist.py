"""MNIST with a multi-layer perceptron; an instance is a batch of images."""

from ..training.config import whole
from .task import Task


def load_data(folder, config):
    from ..datasets import catalog, mnist
    return mnist.load(catalog.locate("mnist", folder), config.model["batch"])


def build(options, meta):
    from ..graphs import mlp
    return mlp(meta["width"], meta["classes"], options["hidden"], options["layers"])


TASK = Task("mnist", {"hidden": whole, "layers": whole, "batch": whole}, load_data, build)

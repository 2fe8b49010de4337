"""MNIST with a multi-layer perceptron; an instance is a batch of images."""

from .task import Task


def load_data(folder, config):
    from ..datasets import catalog, mnist
    return mnist.load(catalog.locate("mnist", folder), config.model["batch"])


def build(sizes, meta):
    from ..graphs import mlp
    return mlp(meta["width"], meta["classes"], sizes["hidden"], sizes["layers"])


TASK = Task("mnist", ("hidden", "layers", "batch"), load_data, build)

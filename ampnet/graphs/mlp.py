"""Multi-layer perceptron.

    pixels -> Linear + ReLU -> ... -> Linear + ReLU -> Linear -> loss

An instance is a batch of images in one message.
"""

from ..errors import GraphError
from .graph import Graph
from .nodes import Linear, SoftmaxCrossEntropy


def mlp(width=784, classes=10, hidden=784, layers=4):
    """`layers` linear layers, ReLU between them, softmax at the end. Reads the columns `pixels` and `label`."""
    if layers < 1:
        raise GraphError(f"mlp: layers must be at least 1, got {layers}")
    g = Graph()
    x = g.matrix("pixels", width, name="images")
    for i in range(1, layers):
        x = Linear(x.width, hidden, "relu", name=f"linear{i}")(x)
    logits = Linear(x.width, classes, name=f"linear{layers}")(x)
    SoftmaxCrossEntropy("label", name="loss")(logits)
    return g

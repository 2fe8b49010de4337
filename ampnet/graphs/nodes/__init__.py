"""The node kinds, one file a family."""

from .activation import Relu, Sigmoid, Tanh
from .bcast import Bcast
from .control import Cond, Isu, Phi
from .embedding import Embedding
from .join import Concat, Split
from .linear import Linear
from .losses import SoftmaxCrossEntropy, SquaredError
from .node import Node, Output
from .sources import Matrix, Rows, Zeros

__all__ = ["Bcast", "Concat", "Cond", "Embedding", "Isu", "Linear", "Matrix", "Node", "Output", "Phi", "Relu", "Rows",
           "Sigmoid", "SoftmaxCrossEntropy", "Split", "SquaredError", "Tanh", "Zeros"]

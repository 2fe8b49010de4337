"""The node kinds, one file a family."""

from .activation import Relu, Sigmoid, Tanh
from .bcast import Bcast
from .cells import GRUCell, LSTMCell, TreeLSTMBranch, TreeLSTMLeaf
from .columns import Narrow, Pad
from .control import Cond, Isu, Phi
from .dropout import Dropout
from .embedding import Embedding
from .gather_scatter import Gather, ScatterAdd
from .groups import Flatmap, Group, Ungroup
from .join import Concat, Split
from .linear import Linear
from .losses import SelectRow, SoftmaxCrossEntropy, SquaredError
from .node import Node, Output
from .reduce import GatedSum, SumRows
from .sources import Matrix, Rows, Zeros

__all__ = ["Bcast", "Concat", "Cond", "Dropout", "Embedding", "Flatmap", "GRUCell", "GatedSum", "Gather", "Group", "Isu",
           "LSTMCell", "Linear", "Matrix", "Narrow", "Node", "Output", "Pad", "Phi", "Relu", "Rows", "ScatterAdd",
           "SelectRow", "Sigmoid", "SoftmaxCrossEntropy", "Split", "SquaredError", "SumRows", "Tanh", "TreeLSTMBranch",
           "TreeLSTMLeaf", "Ungroup", "Zeros"]

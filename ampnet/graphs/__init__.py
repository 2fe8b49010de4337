"""The IR and the models. Every name here is public."""

from .ggnn import ggnn
from .graph import Graph
from .lowering import Machine
from .mlp import mlp
from .nodes import *  # noqa: F403
from .nodes import __all__ as _node_kinds
from .rnn import rnn
from .tree_lstm import tree_lstm

__all__ = ["Graph", "Machine", "ggnn", "mlp", "rnn", "tree_lstm", *_node_kinds]

"""The IR and the models. Every name here is public."""

from .graph import Graph
from .lowering import Machine
from .mlp import mlp
from .nodes import *  # noqa: F403
from .nodes import __all__ as _node_kinds
from .rnn import rnn

__all__ = ["Graph", "Machine", "mlp", "rnn", *_node_kinds]

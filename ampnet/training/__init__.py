"""Training and evaluation of graphs on data sets."""

from .evaluation import evaluate
from .trainer import Trainer

__all__ = ["Trainer", "evaluate"]

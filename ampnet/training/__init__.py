"""Training and evaluation of graphs on data sets.

Imported when first used: options are checked, and files read, before the kernels are.
"""

from importlib import import_module

_PLACES = {"Observer": "trainer", "Trainer": "trainer", "evaluate": "evaluation", "predict": "evaluation"}

__all__ = ["Observer", "Trainer", "evaluate", "predict"]


def __getattr__(name):
    if name in _PLACES:
        return getattr(import_module(f".{_PLACES[name]}", __name__), name)
    raise AttributeError(f"module 'ampnet.training' has no attribute '{name}'")

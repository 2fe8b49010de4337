"""Asynchronous model-parallel training of dynamic neural networks on CPUs.

`import ampnet` is cheap: a part is imported when it is first used, and compiled kernels only then.
"""

from importlib import import_module

from .errors import (
    AmpnetError,
    CheckpointError,
    DataError,
    DivergenceError,
    GraphError,
    OperationError,
    SettingError,
)

_PARTS = ("baselines", "datasets", "experiments", "graphs", "testing", "training")
_FROM_TRAINING = ("Trainer", "evaluate", "predict")

__all__ = [
    "AmpnetError", "CheckpointError", "DataError", "DivergenceError", "GraphError", "OperationError", "SettingError",
    "Trainer", "__version__", "baselines", "datasets", "evaluate", "experiments", "graphs", "predict", "testing", "training"]


def __getattr__(name):
    if name in _PARTS:
        return import_module(f".{name}", __name__)
    if name in _FROM_TRAINING:
        return getattr(import_module(".training", __name__), name)
    if name == "__version__":
        return _version()
    raise AttributeError(f"module 'ampnet' has no attribute '{name}'")


def __dir__():
    return sorted([*globals(), *__all__])


def _version():
    from importlib.metadata import PackageNotFoundError, version
    try:
        return version("ampnet")
    except PackageNotFoundError:  # a checkout that is not installed
        return "unknown"

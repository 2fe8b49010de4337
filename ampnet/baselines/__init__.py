"""The tasks in PyTorch, batched as its users would: what ours is measured against. PyTorch is imported when it is used."""

from importlib.util import find_spec

from ..errors import AmpnetError

__all__ = ["is_available", "train"]


def is_available() -> bool:
    """Whether PyTorch is installed."""
    return find_spec("torch") is not None


def train(task_name, config, data, folder, tell=None, threads=1, epochs=None, target=None):
    """Train the model of a task in PyTorch until its target is reached or the epochs are over; returns a `History`.

    It starts from the initial values that ours has with the same seed, with the options of the `RunConfig` that mean something
    here, and `recipes.py` has the others. data: the task's `Dataset`; folder: gets a row an epoch in metrics.jsonl, as ours
    but for what only ours has, and torch.safetensors, from which a run that was interrupted goes on; tell: function that
    takes a line an epoch; epochs, target: instead of those of `config`.

    Raises AmpnetError where there is no PyTorch; SettingError, DataError, CheckpointError, DivergenceError.
    """
    if not is_available():
        raise AmpnetError("PyTorch is not installed: pip install 'ampnet[torch]'")
    from . import run
    return run.train(task_name, config, data, folder, tell, threads, epochs, target)

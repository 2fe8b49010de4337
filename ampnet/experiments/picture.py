"""`ampnet graph`: a task's graph drawn, with the workers its nodes are placed on. Nothing is trained or measured."""

from dataclasses import replace
from pathlib import Path

from ..errors import SettingError
from . import find
from .run import layers_of

ENDINGS = (".mmd", ".dot", ".svg", ".png")


def draw(task, options, file=None, placement=None, out=None):
    """Draw into the file `out`, or return the Mermaid text where that is None.

    options: of the task by name; file: TOML laid over its defaults; placement: file as in `run.plan`, without which the
    nodes' counted operations are balanced. Where `workers` is not given, a placement says how many there are. Raises
    SettingError for an ending it does not know, DataError where the model's sizes are in data that are not there.
    """
    ending = ".mmd" if out is None else Path(out).suffix.lower()
    if ending not in ENDINGS:
        raise SettingError(f"{out}: unknown ending '{ending}'; known: {', '.join(ENDINGS)}")
    task = find(task)
    layers = layers_of(options, file, placement)
    config = task.resolve(*layers)
    if placement is not None and "workers" not in options:
        config = _as_many_workers_as_placed(config)
    data = task.load_data(config.data, config)
    drawing = _describe(task.build(config.model, data.meta), config)
    from ..graphs.drawing import WRITERS
    content = WRITERS[ending](drawing)
    if out is None:
        return content.decode()
    from ..training.checkpoint import write_atomically
    write_atomically(out, content)
    return None


def _as_many_workers_as_placed(config):
    """Beyond the workers that are configured; what is no number `follow` refuses later."""
    workers = [w + 1 for w in config.placement.values() if type(w) is int]
    return replace(config, settings=replace(config.settings, workers=max([config.settings.workers, *workers])))


def _describe(model, config):
    from ..graphs.drawing import describe
    from ..graphs.placement import balance, follow
    from ..graphs.replicas import replicate
    workers = config.settings.workers
    model.check()
    replicate(model, config.settings.replicas)
    placed = balance(model, workers) if config.placement is None else follow(model, workers, config.placement)
    return describe(model, placed, f"{config.task} on {workers} worker{'s' * (workers > 1)}")

"""A run of a task, in the order a user meets it.

1. options, directory and data are checked, without any compiled part
2. the kernels are imported, which compiles them the first time
3. model and trainer are built, nodes are placed
4. the directory is made, config.toml is written
5. epochs
"""

import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from ..errors import CheckpointError, DataError, SettingError
from ..training.config import RunConfig, check_resumable, read_toml
from . import find
from .folder import BEST, CHECKPOINT, CONFIG, RunFolder
from .stopping import ends_at_once, is_noted


def plan(task: str, options: dict, file=None, out=None, resume=False, placement=None) -> tuple[RunConfig, RunFolder]:
    """Resolve and check everything that needs no data: option, then file, then the run resumed, then default.

    placement: file with a table `placement`, as config.toml has one, or with nothing but `node = worker` lines.
    """
    task, layers = find(task), layers_of(options, file, placement)
    if not resume:
        config = task.resolve(*layers)  # options first: a mistake there is the likelier one
        return config, RunFolder(out, task.name)
    folder = RunFolder(out, task.name, resume=True)
    recorded = (str(folder.path / CONFIG), read_toml(folder.path / CONFIG))
    config = task.resolve(recorded, *layers)
    changed = any(getattr(config.settings, name) != recorded[1].get(name) for name in ("workers", "replicas"))
    if changed and not any("placement" in layer for _, layer in layers):
        config = replace(config, placement=None)   # it was for other workers or nodes
    check_resumable(task.resolve(recorded), config, folder.path)
    return config, folder


def layers_of(options, file=None, placement=None):
    """What is laid over a task's defaults, as (origin, values): the file, then the options, then the placement of a file."""
    layers = [] if file is None else [(str(file), read_toml(file))]
    layers.append((None, options))
    if placement is not None:
        given = read_toml(placement)
        layers.append((str(placement), {"placement": given.get("placement", given)}))
    return layers


def train(config: RunConfig, folder: RunFolder, resume=False, quiet=False, write=None, tell=None, record=None, replay=None):
    """Train as planned; `write` takes lines of progress, `tell` those about it; record, replay: files, see `Trainer.fit`.
    Returns (History, seconds).

    An interruption is passed on, with the last checkpoint as its text; before the directory is made, it ends the process.
    """
    started, task = perf_counter(), find(config.task)
    with ends_at_once():
        config = _as_recorded(config, record, replay)
        config, data, trainer = _prepare(config, task, None if quiet else tell)
    from ..training import checkpoint, progress
    with is_noted() as noted:
        try:
            folder.make()
            checkpoint.write_atomically(folder.path / CONFIG, config.to_toml().encode())
            with _observer(progress, data.train, quiet, write) as observer:
                history = trainer.fit(data, config.epochs, config.target, folder.path, resume, (noted, observer),
                                      task.metrics_for(data.meta), record, replay)
        except BaseException as error:
            folder.remove_if_empty()
            if not isinstance(error, Exception):
                error.args = (last_checkpoint(folder.path),)
            raise
    return history, perf_counter() - started


def _as_recorded(config, record, replay):
    """Check the files of an order before anything slow; the config with the placement that is to be repeated."""
    if record is not None and replay is not None:
        raise SettingError("--record and --replay exclude each other")
    if record is None and replay is None:
        return config
    from ..training import orderfile
    if record is not None:
        orderfile.check_new(record)
        return config
    return replace(config, placement=config.placement or orderfile.recorded_placement(replay))


def _prepare(config, task, tell):
    """(the config with its placement, data, trainer); all that is slow, and nothing that is written."""
    data = load_data(config)
    with compiling(task, tell):
        from ..training.trainer import Trainer
        model = task.build(config.model, data.meta)
        trainer = Trainer(model, config.placement, **config.settings.as_dict())
    for instances in (data.train, data.valid):
        model.check_data(instances)
    return replace(config, placement=trainer.place(data.train)), data, trainer


def load_data(config: RunConfig):
    """The data set of a run, with no more training instances than its `limit`."""
    data = find(config.task).load_data(config.data, config)
    return data if config.limit is None else replace(data, train=data.train.take(config.limit))


def _observer(progress, train, quiet, write):
    if quiet or write is None:
        return progress.Silent()
    if sys.stdout.isatty():
        return progress.Bar(train.examples / len(train))
    return progress.Lines(write)


@contextmanager
def compiling(task, tell=None):
    """Around what compiles the kernels of a task; says so where it takes long."""
    from ..kernels import CACHE_FOLDER, cache
    if tell is not None and not cache.is_warm(CACHE_FOLDER, task.name):
        tell("compiling kernels (once, half a minute) ...")
    yield
    cache.mark_warm(CACHE_FOLDER, task.name)


def last_checkpoint(folder) -> str:
    """Where an interrupted run can go on."""
    from ..training import checkpoint
    path = Path(folder) / CHECKPOINT
    try:
        position = checkpoint.read(path)[1]
    except CheckpointError:
        return "there is no checkpoint"
    inside = f" and {position['instances']:,} instances of the next" if position.get("instances") else ""
    return f"the last checkpoint is {path}, after epoch {position['epoch']}{inside}"


def summary(config: RunConfig, folder: RunFolder, history, seconds) -> str:
    """The last line of a run."""
    from ..training.progress import show
    name = history.metric_name
    best = f"best {name} {show(name, history.best)}, {seconds:.1f} s, {folder.path}"
    done = "" if history.epochs else "nothing left to do; "
    if config.target is None:
        return f"{done}epochs over: {best}"
    verdict = "reached" if history.reached_target else "not reached"
    return f"{done}target {show(name, config.target)} {verdict}: {best}"


def evaluate_run(run_dir, split="valid", data=None, tell=None) -> dict:
    """Loss and metric of a run's best parameters on a split; `data` goes before the folder the run was given.

    As nothing is written, a signal ends the process.
    """
    with ends_at_once():
        return _evaluate_run(run_dir, split, data, tell)


def _evaluate_run(run_dir, split, data, tell):
    path = Path(run_dir) / CONFIG
    recorded = read_toml(path)
    if not isinstance(recorded.get("task"), str):
        raise SettingError(f"{path}: names no task")
    task = find(recorded["task"])
    config = task.resolve((str(path), recorded))
    parameters = next((p for p in (Path(run_dir) / BEST, Path(run_dir) / CHECKPOINT) if p.exists()), None)
    if parameters is None:
        raise CheckpointError(f"{run_dir}: there is no checkpoint")
    dataset = task.load_data(data if data is not None else config.data, config)
    instances = getattr(dataset, split)
    if instances is None:
        raise DataError(f"{task.name} has no {split} split")
    with compiling(task, tell):
        from ..training import checkpoint
        from ..training.evaluation import evaluate
        model = task.build(config.model, dataset.meta)
        position = checkpoint.load_parameters(parameters, model)
        s = config.settings
        return {"task": task.name, "split": split, "parameters": str(parameters), "epoch": position["epoch"],
                **evaluate(model, instances, s.workers, s.max_batch, task.metrics_for(dataset.meta))}

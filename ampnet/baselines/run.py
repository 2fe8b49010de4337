"""A task trained in PyTorch from our initial values, epoch by epoch, to its target."""

import math
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from ..errors import DataError, DivergenceError, SettingError
from ..kernels.optimizers import SCHEDULES, learning_rate
from ..training.metrics import append_json, better, drop_epochs_after, reached, read_json_lines
from ..training.progress import epoch_line
from ..training.trainer import History
from . import checkpoint
from .optimizers import optimizers_of
from .recipes import RECIPES

METRICS = "metrics.jsonl"


def train(task, config, data, folder, tell, threads, epochs, target):
    """See `ampnet.baselines.train`."""
    if task not in RECIPES:
        raise SettingError(f"there is no PyTorch baseline of {task!r}; known: {', '.join(RECIPES)}")
    epochs, target = epochs or config.epochs, config.target if target is None else target
    if config.limit is not None:
        data = replace(data, train=data.train.take(config.limit))
    with _settled(threads):
        learner, folder = Learner(RECIPES[task], config, data, epochs), Path(folder)
        history = _take_up(learner, folder, target)
        for epoch in range(len(history.epochs) + 1, epochs + 1):
            if history.reached_target:
                break
            row = learner.epoch(epoch)
            _book(history, row, target)
            append_json(folder / METRICS, row)
            learner.save(folder / checkpoint.NAME, epoch, history.best)
            if tell is not None:
                tell(epoch_line(row, epochs))
    return history


@contextmanager
def _settled(threads):
    """So many threads, and no checks of sparse gradients; all that, and random numbers, is as before when it is over."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng(devices=[]), torch.sparse.check_sparse_tensor_invariants(enable=False):
            yield
    finally:
        torch.set_num_threads(before)


def _take_up(learner, folder, target):
    """The history of the run in this folder, which goes on from its checkpoint; or an empty one, with a first checkpoint."""
    history, path = History(metric_name=learner.objective.metric), folder / checkpoint.NAME
    if not path.exists():
        if (folder / METRICS).exists():
            raise SettingError(f"{folder}: holds a run, but no {checkpoint.NAME} to go on from")
        folder.mkdir(parents=True, exist_ok=True)
        learner.save(path, 0, None)
        return history
    position = learner.restore(path)
    drop_epochs_after(position["epoch"], folder / METRICS)
    rows = read_json_lines(folder / METRICS) if position["epoch"] else []
    if [row["epoch"] for row in rows] != list(range(1, position["epoch"] + 1)):
        raise SettingError(f"{folder / METRICS}: lacks epochs of the {position['epoch']} that {path.name} comes after")
    for row in rows:
        _book(history, row, target)
    return history


def _book(history, row, target):
    history.epochs.append(row)
    name, value = row["metric_name"], row["valid_metric"]
    if better(name, value, history.best):
        history.best = value
    history.reached_target |= reached(name, value, target)


class Learner:
    """A model with its data and optimizers. epochs: in all, over which a cosine schedule runs."""

    def __init__(self, recipe, config, data, epochs):
        self.config, self.settings, self.recipe = config, config.settings, recipe
        graph = recipe.graph(config.model, data.meta).initialise(config.settings.seed)
        for instances in (data.train, data.valid):
            if not len(instances):
                raise DataError("there are no instances to train on or to validate with")
            graph.check_data(instances)
        s, self.instances = self.settings, len(data.train)
        self.examples, self.valid_examples = data.train.examples, data.valid.examples
        self.objective, self.unit = recipe.objective, recipe.unit(data.meta)
        self.model = recipe.model(graph.parameters, config, data.meta)
        self.optimizers = optimizers_of(self.model, s.optimizer, s.lr * recipe.rate, s.momentum, s.weight_decay)
        self.train, self.valid = (recipe.feed(instances, self.model, data.meta) for instances in (data.train, data.valid))
        self.batch, self.total = recipe.batch or config.model["batch"], epochs * self.instances
        self._set_rate(0)   # compiles the schedule before anything is timed

    def epoch(self, number):
        """Train and evaluate; returns the row of metrics."""
        started = perf_counter()
        loss = self._train(number)
        trained = perf_counter()
        valid_loss, valid_metric = self._evaluate()
        over = perf_counter()
        return {
            "epoch": number, "seconds": over - started, "train_seconds": trained - started, "train_loss": loss,
            "valid_loss": valid_loss, "valid_metric": valid_metric,
            "valid_instances_per_second": self.valid_examples / (over - trained),
            "metric_name": self.objective.metric, "instances": self.examples,
            "instances_per_second": self.examples / (trained - started)}

    def _train(self, number):
        """Mean loss over an epoch's targets, of each batch before its update."""
        torch.manual_seed((self.settings.seed << 32) + number)   # of dropout
        rng = np.random.default_rng([self.settings.seed, number])
        self.model.train()
        done, total, targets = 0, 0.0, 0
        for numbers in self.train.shuffled(self.batch, rng):
            self._set_rate((number - 1) * self.instances + done * self.instances // self.examples)
            inputs, wanted = self.train.batch(numbers)
            loss = self._step(inputs, wanted)
            if not math.isfinite(loss):
                raise DivergenceError(f"{self.config.task} in PyTorch: the loss is not finite in epoch {number}")
            done, total, targets = done + len(numbers), total + loss * len(wanted), targets + len(wanted)
        return total / targets

    def _step(self, inputs, wanted):
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss = self.objective.loss(self.model(*inputs), wanted)
        loss.backward()
        if self.settings.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        for optimizer in self.optimizers:
            optimizer.step()
        return loss.item()

    def _set_rate(self, done):
        s = self.settings
        rate = learning_rate(SCHEDULES[s.lr_schedule], s.lr * self.recipe.rate, done, self.total, s.warmup, s.step_every,
                             s.step_factor)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate

    @torch.no_grad()
    def _evaluate(self):
        """(mean loss, metric) over the targets of validation."""
        self.model.eval()
        loss, score, targets = 0.0, 0.0, 0
        for numbers in self.valid.in_order(self.recipe.evaluation):
            inputs, wanted = self.valid.batch(numbers)
            outputs = self.model(*inputs)
            loss += self.objective.loss(outputs, wanted).item() * len(wanted)
            score += self.objective.score(outputs, wanted)
            targets += len(wanted)
        return loss / targets, score * self.unit / targets

    # ---- interruptions

    @property
    def _run(self):
        """What a run that goes on must agree in."""
        s, c = self.settings, self.config
        return {"task": c.task, "seed": s.seed, "optimizer": s.optimizer, "model": c.model, "examples": self.examples}

    def save(self, path, epoch, best):
        checkpoint.save(path, self.model, self.optimizers, {"epoch": epoch, "best": best, "run": self._run})

    def restore(self, path):
        return checkpoint.restore(path, self.model, self.optimizers, self._run)

"""Trainer: epochs of asynchronous training, evaluation after each, checkpoints, and observers that watch."""

from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np

from ..errors import DataError, SettingError
from ..graphs.lowering import Machine
from ..graphs.placement import balance, follow, measure
from ..graphs.replicas import replicate
from . import checkpoint
from .blas import single_threaded_blas
from .evaluation import run_evaluation
from .metrics import append_json, better, drop_epochs_after, epoch_metrics, metric_name, reached
from .settings import Settings
from .tracefile import TraceFile

TRACE_EVENTS = 1 << 16  # a worker and epoch; older ones are overwritten


class Observer:
    """What can be watched; override what you need. Observers only read."""

    def epoch_started(self, epoch, epochs, instances):
        pass

    def progress(self, instances_home):
        pass

    def epoch_ended(self, metrics):
        pass


@dataclass
class History:
    """What `Trainer.fit` returns."""

    epochs: list = field(default_factory=list)  # one dict an epoch, as in metrics.jsonl
    reached_target: bool = False
    best: float | None = None                   # best metric, of the epochs before a resume too
    metric_name: str = ""

    @property
    def last(self):
        return self.epochs[-1] if self.epochs else None


class Trainer:
    """Trains a graph.

    Options are those of `Settings`: workers, max_active_keys, min_update_frequency, optimizer, lr, ... The parameters are
    drawn from `seed` unless the graph has been initialised or loaded already. placement: node name -> worker; by default
    the nodes are timed on a few training instances and balanced (`place`). With replicas the model itself gets them.
    """

    def __init__(self, model, placement=None, **options):
        unknown = sorted(set(options) - set(Settings.names()))
        if unknown:
            raise SettingError(f"unknown option '{unknown[0]}'; known: {', '.join(Settings.names())}")
        self.settings = s = Settings(**options)
        self.model = model
        model.check()
        if not model.initialised:
            model.initialise(s.seed)
        replicate(model, s.replicas)
        self.placement = placement
        self.machine = self._machine(None if placement is None else follow(model, s.workers, placement))

    def _machine(self, placement):
        s = self.settings
        return Machine(self.model, s.workers, s.min_update_frequency, s.max_batch, s.coalesce,
                       TRACE_EVENTS if s.trace else 0, placement)

    def place(self, instances):
        """Settle the placement, node name -> worker, by a short measured run where none was given; parameters stay."""
        if self.placement is None:
            placed = self.machine.placement
            if self.settings.workers > 1:
                costs, traffic = measure(self._trial_machine, instances)
                placed = balance(self.model, self.settings.workers, costs, traffic)
                self.machine = self._machine(placed)
            self.placement = {node.name: placed[node] for node in self.model.nodes if node in placed}
        return self.placement

    def _trial_machine(self, trace):
        s = self.settings
        return Machine(self.model, 1, None, s.max_batch, s.coalesce, trace)

    def fit(self, data, epochs=10, target=None, out=None, resume=False, observers=(), metrics=None):
        """Train for `epochs` epochs in all on `data.train`, evaluating on `data.valid` after each.

        data: a `Dataset`, or `Instances` to train on without evaluation; target: stop when the validation metric is
        reached; metrics: further ones, a function as in `evaluate`; out: run directory for metrics.jsonl,
        checkpoint.safetensors, best.safetensors and trace.json; resume: go on from the checkpoint there. Returns a
        `History`. Raises DataError, SettingError, CheckpointError, DivergenceError, OperationError; after
        KeyboardInterrupt the last checkpoint is whole.
        """
        if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
            raise SettingError(f"epochs must be a whole number of at least 1, got {epochs!r}")
        train, valid = getattr(data, "train", data), getattr(data, "valid", None)
        if len(train) == 0:
            raise DataError("there are no training instances")
        if resume and out is None:
            raise SettingError("resume needs out, the run directory to go on in")
        valid = valid or None  # one without instances tells nothing
        for instances in filter(None, (train, valid)):
            self.model.check_data(instances)
        with single_threaded_blas():
            self.place(train)
        self._choose_optimizer(epochs * len(train))
        history, first, best = History(metric_name=metric_name(self.model)), 1, None
        if resume:
            position = checkpoint.restore(Path(out) / "checkpoint.safetensors", self.machine)
            first, best = position["epoch"] + 1, position["best"]
            drop_epochs_after(position["epoch"], Path(out) / "metrics.jsonl")
            history.best = best
            if best is not None and reached(history.metric_name, best, target):
                history.reached_target = True
                return history
        elif out is not None:
            Path(out).mkdir(parents=True, exist_ok=True)
            self._save(out, "checkpoint", 0, best)
        trace = TraceFile(Path(out) / "trace.json", self.model) if out is not None and self.settings.trace else None
        with single_threaded_blas():
            for epoch in range(first, epochs + 1):
                for observer in observers:
                    observer.epoch_started(epoch, epochs, len(train))
                row = self._epoch(epoch, train, valid, observers, trace, metrics)
                history.epochs.append(row)
                value = row.get("valid_metric", row["train_metric"])
                improved = better(row["metric_name"], value, best)
                history.best = best = value if improved else best
                if out is not None:
                    append_json(Path(out) / "metrics.jsonl", row)
                    self._save(out, "checkpoint", epoch, best)
                    if improved:
                        self._save(out, "best", epoch, best)
                for observer in observers:
                    observer.epoch_ended(row)
                if reached(row["metric_name"], value, target):
                    history.reached_target = True
                    break
        return history

    def _choose_optimizer(self, total):
        s = self.settings
        self.machine.optimizer(s.optimizer, s.lr, s.momentum, weight_decay=s.weight_decay, clip=s.clip,
                               schedule=s.lr_schedule, total=total, warmup=s.warmup, step_every=s.step_every,
                               step_factor=s.step_factor)

    def _epoch(self, epoch, train, valid, observers, trace, metrics):
        started = perf_counter()
        rng = np.random.default_rng([self.settings.seed, epoch])
        order, row_index = np.arange(len(train)), None
        if train.exchangeable_rows:
            row_index = rng.permutation(train.examples)
        else:
            order = rng.permutation(len(train))

        def watch(home):
            for observer in observers:
                observer.progress(home)

        keys = self.settings.max_active_keys
        run = self.machine.run(train, order, row_index, max_active_keys=keys, key=(self.settings.seed << 32) + epoch,
                               instances_before=(epoch - 1) * len(train), observe=watch)
        self.machine.flush()
        self.machine.average_replicas()
        run.updates = self.machine.engine.updates()
        if trace is not None:
            trace.add(run.events)
        checked, further = None, {}
        if valid is not None:
            checked = run_evaluation(self.machine, valid, keys, predict=metrics is not None)
            further = metrics(checked.predictions, valid) if metrics is not None else {}
        return epoch_metrics(self.model, epoch, run, checked, further, train.examples, valid.examples if valid else 0,
                             perf_counter() - started)

    def _save(self, out, name, epoch, best):
        checkpoint.save(Path(out) / f"{name}.safetensors", self.machine,
                        {"epoch": epoch, "best": best, "seed": self.settings.seed})

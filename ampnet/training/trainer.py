"""Trainer: epochs of asynchronous training, evaluation after each, checkpoints, and observers that watch."""

from dataclasses import dataclass, field
from pathlib import Path

from ..errors import DataError, SettingError
from ..graphs.lowering import Machine
from ..graphs.placement import balance, follow, measure
from ..graphs.replicas import replicate
from . import checkpoint
from .blas import single_threaded_blas
from .epoch import Epoch
from .evaluation import NOT_RECORDED, run_evaluation
from .metrics import append_json, better, drop_epochs_after, epoch_metrics, metric_name, reached
from .orderfile import Recorder, Replayer
from .settings import Settings
from .tracefile import TraceFile

TRACE_EVENTS = 1 << 16  # a worker and stretch of an epoch; older ones are overwritten


class Observer:
    """What can be watched; override what you need. Observers only read; what one raises ends the training."""

    def epoch_started(self, epoch, epochs, instances):
        pass

    def progress(self, instances_home):
        """instances_home: of this epoch; those before a resume too."""

    def evaluating(self, instances_home):
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
        self.placement, self.runs = placement, NOT_RECORDED
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
        alone = {node: 0 for node in self.model.nodes if not node.roaming}   # whichever worker a node is fixed to
        return Machine(self.model, 1, None, s.max_batch, s.coalesce, trace, alone)

    def fit(self, data, epochs=10, target=None, out=None, resume=False, observers=(), metrics=None,
            record=None, replay=None):
        """Train for `epochs` epochs in all on `data.train`, evaluating on `data.valid` after each.

        data: a `Dataset`, or `Instances` to train on without evaluation; target: stop when the validation metric is
        reached; metrics: further ones, a function as in `evaluate`; out: run directory for metrics.jsonl,
        checkpoint.safetensors, best.safetensors and trace.json; resume: go on from the checkpoint there; record:
        new file for the order in which the workers do things; replay: such a file, to do it all again, bit for bit. Returns
        a `History`. Raises DataError, SettingError, CheckpointError, RecordError, DivergenceError, OperationError.
        KeyboardInterrupt is passed on when all workers are joined; the last checkpoint is whole, and this trainer can fit
        again.
        """
        if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
            raise SettingError(f"epochs must be a whole number of at least 1, got {epochs!r}")
        train, valid = getattr(data, "train", data), getattr(data, "valid", None)
        if len(train) == 0:
            raise DataError("there are no training instances")
        if resume and out is None:
            raise SettingError("resume needs out, the run directory to go on in")
        if record is not None and replay is not None:
            raise SettingError("a run is recorded or replayed, not both")
        valid = valid or None  # one without instances tells nothing
        for instances in filter(None, (train, valid)):
            self.model.check_data(instances)
        try:
            self._place_for(train, record, replay, epochs)
            return self._fit(train, valid, epochs, target, out, resume, observers, metrics)
        finally:
            self.runs.close()
            self.runs = NOT_RECORDED

    def _place_for(self, train, record, replay, epochs):
        """The placement, and what runs the machine: as it comes, recorded or as recorded."""
        if replay is not None:
            self.runs = Replayer(replay, self, epochs)
            if self.placement is None:
                self.placement = self.runs.placement
                self.machine = self._machine(follow(self.model, self.settings.workers, self.placement))
        with single_threaded_blas():
            self.place(train)
        if record is not None:
            self.runs = Recorder(record, self, epochs)

    def _fit(self, train, valid, epochs, target, out, resume, observers, metrics):
        self._choose_optimizer(epochs * len(train))
        history, position = History(metric_name=metric_name(self.model)), {"epoch": 0, "best": None}
        if resume:
            position = self._resume(Path(out))
            history.best = position["best"]
            if history.best is not None and reached(history.metric_name, history.best, target):
                history.reached_target = True
                return history
        elif out is not None:
            Path(out).mkdir(parents=True, exist_ok=True)
            self._save(out, "checkpoint", position)
        trace = TraceFile(Path(out) / "trace.json", self.model) if out is not None and self.settings.trace else None
        with single_threaded_blas():
            for number in range(position["epoch"] + 1, epochs + 1):
                epoch = Epoch(number, train, self.settings.seed, self.settings.checkpoint_every)
                if position.get("instances"):   # only the first epoch of a resumed run is one begun before
                    epoch.go_on(position, Path(out) / "checkpoint.safetensors")
                    position = {}
                _tell(observers, "epoch_started", number, epochs, len(train))
                self._train(epoch, train, observers, trace, out, history.best)
                row = self._evaluated(epoch, train, valid, observers, metrics)
                history.epochs.append(row)
                value = row.get("valid_metric", row["train_metric"])
                improved = better(row["metric_name"], value, history.best)
                history.best = value if improved else history.best
                if out is not None:
                    self._save_epoch(out, row, history.best, improved)
                _tell(observers, "epoch_ended", row)
                if reached(row["metric_name"], value, target):
                    history.reached_target = True
                    break
        return history

    def _resume(self, out):
        """The position of the checkpoint there, taken up; what came after it is removed."""
        position = checkpoint.restore(out / "checkpoint.safetensors", self.machine)
        checkpoint.remove_unfinished(out)
        drop_epochs_after(position["epoch"], out / "metrics.jsonl")
        return position

    def _choose_optimizer(self, total):
        s = self.settings
        self.machine.optimizer(s.optimizer, s.lr, s.momentum, weight_decay=s.weight_decay, clip=s.clip,
                               schedule=s.lr_schedule, total=total, warmup=s.warmup, step_every=s.step_every,
                               step_factor=s.step_factor)

    def _train(self, epoch, train, observers, trace, out, best):
        """Train what is left of an epoch, with checkpoints on the way.

        Every stretch ends as an epoch does: no gradient is left over, and replicas are equal. So a checkpoint needs
        neither gathered gradients nor the parameters of every replica.
        """
        while not epoch.is_over:
            _tell(observers, "progress", epoch.done)
            epoch.count(self._stretch(epoch, train, observers, trace))
            if out is not None and not epoch.is_over:
                self._save(out, "checkpoint", {"epoch": epoch.number - 1, "best": best, **epoch.progress()})
        if trace is not None:
            trace.write()

    def _stretch(self, epoch, train, observers, trace):
        run = self.runs.run(
            self.machine, train, epoch.next_stretch(), epoch.row_index, max_active_keys=self.settings.max_active_keys,
            key=(epoch.seed << 32) + epoch.number, instances_before=(epoch.number - 1) * len(train) + epoch.done,
            observe=lambda home: _tell(observers, "progress", epoch.done + home))
        try:
            self.machine.flush()
            self.machine.average_replicas()
        except BaseException:
            self.machine.forget()   # what was gathered is not for the next `fit`
            raise
        run.updates = self.machine.engine.updates()
        if trace is not None:
            trace.add(run.events)
        return run

    def _evaluated(self, epoch, train, valid, observers, metrics):
        """The epoch's row of metrics."""
        checked, further = None, {}
        if valid is not None:
            _tell(observers, "evaluating", 0)
            checked = run_evaluation(self.machine, valid, self.settings.max_active_keys, metrics is not None,
                                     lambda home: _tell(observers, "evaluating", home), self.runs)
            further = metrics(checked.predictions, valid) if metrics is not None else {}
        return epoch_metrics(self.model, epoch.number, epoch.counted, checked, further, train.examples,
                             valid.examples if valid else 0, epoch.seconds)

    def _save_epoch(self, out, row, best, improved):
        """The checkpoint comes last: a run that is killed before it does the epoch again, and writes all three again."""
        append_json(Path(out) / "metrics.jsonl", row)
        for name in ("best", "checkpoint") if improved else ("checkpoint",):
            self._save(out, name, {"epoch": row["epoch"], "best": best})

    def _save(self, out, name, position):
        checkpoint.save(Path(out) / f"{name}.safetensors", self.machine,
                        {"instances": 0, "seed": self.settings.seed, **position})


def _tell(observers, what, *values):
    for observer in observers:
        getattr(observer, what)(*values)

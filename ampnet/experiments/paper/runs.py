"""One run of a reproduction: trained once, gone on with if it was interrupted, read back ever after.

A finished run has a `done.json` beside its metrics. A run that diverged is finished too: it would do so again.
"""

import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from time import perf_counter

from ...errors import AmpnetError, OperationError, SettingError
from ...training.checkpoint import write_atomically
from ...training.config import read_toml
from ...training.metrics import reached, read_json_lines
from .. import find, run
from ..folder import CHECKPOINT, CONFIG, METRICS
from . import machine
from .spec import TORCH, Spec

DONE = "done.json"
UNITS = {"qm9": "debye"}   # of errors; accuracies are shares


@dataclass(frozen=True)
class Result:
    """A finished run. history: a dict an epoch, as in metrics.jsonl; failed: why it came to no end, or None."""

    spec: Spec
    history: tuple
    failed: str | None
    folder: Path

    @property
    def target(self):
        return self.spec.config.target

    @cached_property
    def reached(self) -> bool:
        return any(reached(row["metric_name"], row["valid_metric"], self.target) for row in self.history)

    @property
    def best(self) -> float | None:
        """The best validation metric of its epochs."""
        values = [row["valid_metric"] for row in self.history]
        return None if not values else max(values) if self.history[0]["metric_name"] == "accuracy" else min(values)

    @property
    def epochs(self) -> int:
        """Finished; if the target was reached those that it took, as a run stops there."""
        return len(self.history)

    @property
    def seconds(self) -> float:
        """Of all its epochs; if the target was reached those to it."""
        return sum(row["seconds"] for row in self.history)

    @property
    def metric(self) -> str | None:
        """What is validated, with its unit."""
        unit = f" ({UNITS[self.spec.task]})" if self.spec.task in UNITS else ""
        return f"{self.history[0]['metric_name']}{unit}" if self.history else None

    @property
    def staleness(self) -> float | None:
        """Mean updates between forward and backward, of the node where it is largest; the median over epochs."""
        return median(max(row["staleness"].values()) for row in self.history) if self.history else None

    def typical(self, name) -> float | None:
        """The median over epochs of a number in metrics.jsonl; None if there are none."""
        return median(row[name] for row in self.history) if self.history else None


def finished(spec, folder) -> Result | None:
    """The result of a run that is done; SettingError if it was made with other settings than it would be now."""
    if not (folder / DONE).is_file():
        return None
    _check_same(spec, folder)
    failed = json.loads((folder / DONE).read_text(encoding="utf-8"))["failed"]
    return Result(spec, tuple(_history(folder)), failed, folder)


def train(spec, folder, data, tell, beside=1) -> Result:
    """Train to the end, from the last checkpoint if there is one. What goes wrong in the run is told in the result.

    data: folder of the data files, or None; tell: takes lines of progress; beside: runs at a time, for the record.
    Interruptions are passed on.
    """
    if (folder / CONFIG).is_file():
        _check_same(spec, folder)
    started, failed, final = perf_counter(), None, True
    resumed = (folder / CHECKPOINT).is_file()
    try:
        (_train_torch if spec.kind == TORCH else _train)(spec, folder, data, tell, resumed)
    except OperationError as error:
        failed = _line(error)
    except AmpnetError as error:     # of the disk or the data: the next start may do better
        failed, final = _line(error), False
    if final:
        write_atomically(folder / DONE, _done(spec, failed, perf_counter() - started, resumed, beside))
    return Result(spec, tuple(_history(folder)), failed, folder)


def _train(spec, folder, data, tell, resumed):
    options = {**spec.options, "seed": spec.seed, **({"data": data} if data is not None else {})}
    run.train(*run.plan(spec.task, options, None, folder, resumed), resumed, False, tell, tell)


def _train_torch(spec, folder, data, tell, _):
    """Batched training by PyTorch, which finds its own checkpoint."""
    config = replace(spec.config, data=data)
    try:
        from ...baselines import train as train_baseline
        dataset = run.load_data(config)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / CONFIG, config.to_toml().encode())
        train_baseline(spec.task, config, dataset, folder, tell, spec.threads)
    except ImportError as error:
        raise SettingError(f"PyTorch cannot be used: {_line(error)}") from None
    except RuntimeError as error:   # as PyTorch raises it
        if isinstance(error, AmpnetError):
            raise
        raise OperationError(f"PyTorch: {_line(error)}") from error


def _history(folder):
    return read_json_lines(folder / METRICS) if (folder / METRICS).is_file() else []


def _line(error):
    return " ".join(str(error).split())


def _check_same(spec, folder):
    """A task's defaults may have changed since the run was made."""
    path = folder / CONFIG
    before = find(spec.task).resolve((str(path), read_toml(path))).values()
    now = spec.config.values()
    for name in sorted((before.keys() | now.keys()) - {"data"}):
        if before.get(name) != now.get(name):
            raise SettingError(f"{folder}: was made with {name} {before.get(name, 'none')}, now it is {now.get(name, 'none')}; "
                               "give another --out, or remove that folder")


def _done(spec, failed, seconds, resumed, beside):
    return json.dumps({
        "task": spec.task, "kind": spec.kind, "seed": spec.seed, "threads": spec.threads, "options": spec.changed,
        "command": spec.command, "failed": failed, "wall_seconds": round(seconds, 3), "resumed": resumed, "at_a_time": beside,
        "machine": machine.describe()}, indent=1).encode()

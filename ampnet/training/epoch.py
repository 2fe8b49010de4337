"""One epoch, trained in stretches: between two of them the machine is empty, so that a checkpoint can be made there.

A checkpoint inside an epoch holds `Epoch.progress`, and an epoch made anew with it goes on as if nothing had happened: the
order of the data depends on (seed, epoch) alone, and what the runs of its stretches counted is in the file. Floats go
through JSON unchanged, so the sums come out the same to the last bit.
"""

from dataclasses import fields, replace
from time import perf_counter

import numpy as np

from ..errors import CheckpointError
from ..runtime.engine import Run

SUMMED = ("received_forward", "received_backward", "calls", "rows", "loss", "error", "correct", "targets", "gradients",
          "delays")

UNSAVED = ("events", "predictions", "order")


class Epoch:
    """Order and progress of epoch `number` (from 1) on `Instances`.

    every: instances of a stretch, counted from the epoch's beginning; 0: the whole epoch is one.
    """

    def __init__(self, number, instances, seed, every=0):
        self.number, self.seed, self.size, self.every = number, seed, len(instances), every or len(instances)
        rng = np.random.default_rng([seed, number])
        self.order, self.row_index = np.arange(self.size), None
        if instances.exchangeable_rows:
            self.row_index = rng.permutation(instances.examples)
        else:
            self.order = rng.permutation(self.size)
        self.done, self.counted = 0, None
        self._earlier, self._started = 0.0, perf_counter()

    @property
    def is_over(self):
        return self.done == self.size

    @property
    def seconds(self):
        """Since its beginning, but for the time between an interruption and going on."""
        return self._earlier + perf_counter() - self._started

    def next_stretch(self):
        """Numbers of the instances up to the next checkpoint, in their order."""
        return self.order[self.done:(self.done // self.every + 1) * self.every]

    def count(self, run):
        """Take note of a stretch that is done; run: its `Run`."""
        self.done += run.instances
        self.counted = run if self.counted is None else together(self.counted, run)

    def progress(self):
        """What a checkpoint inside this epoch has to hold, as a dict of JSON values."""
        return {"instances": self.done, "of": self.size, "seed": self.seed, "seconds": self.seconds,
                "counted": _as_json(self.counted)}

    def go_on(self, progress, origin):
        """Take up the progress of a checkpoint; CheckpointError, which names `origin`, where it is of other data."""
        try:
            done, of, seed = (int(progress[name]) for name in ("instances", "of", "seed"))
            counted, seconds = _from_json(progress["counted"]), float(progress["seconds"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{origin}: damaged position: {error}") from error
        if (of, seed) != (self.size, self.seed) or not 0 < done < of:
            raise CheckpointError(f"{origin}: is from after {done} of {of} instances of an epoch with seed {seed}, and "
                                  f"cannot go on with {self.size} instances and seed {self.seed}")
        self.done, self.counted, self._earlier = done, counted, seconds


def together(first, second):
    """Two `Run`s, one after the other, as one. Shares and means are weighted; the trace's events are not kept."""
    gradients, seconds = first.gradients + second.gradients, first.seconds + second.seconds
    stale = first.staleness * first.gradients + second.staleness * second.gradients
    busy = [(a * first.seconds + b * second.seconds) / max(seconds, 1e-9)
            for a, b in zip(first.busy, second.busy, strict=True)]
    return replace(second, **{name: getattr(first, name) + getattr(second, name) for name in SUMMED}, seconds=seconds,
                   instances=first.instances + second.instances, staleness=stale / np.maximum(gradients, 1), busy=busy,
                   events=[], order=[])


def _as_json(run):
    values = {f.name: getattr(run, f.name) for f in fields(Run) if f.name not in UNSAVED}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}


def _from_json(values):
    return Run(**{name: value if name == "busy" or not isinstance(value, list) else np.array(value)
                  for name, value in values.items()})

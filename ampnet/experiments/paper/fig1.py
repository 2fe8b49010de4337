"""Figure 1: what workers do under three schedules of the same model, drawn from recorded traces.

A perceptron with one heavy layer for each worker, so that the pipeline is as deep as the workers are many.
"""

from dataclasses import dataclass

from ..info import usable_cores
from . import gantt

NAME = "fig1"
ABOUT = "Gantt charts of a pipeline that is flushed, one that is filled and updated rarely, and AMP."
MOST_WORKERS = 4
WIDTH, CLASSES, ROWS = 784, 10, 100   # ROWS: images an instance
DRAWN = 3                             # instances of the flushed pipeline that the time drawn is long
RARE = 32
COLUMNS = ("schedule", "max_active_keys", "min_update_frequency", "instances/s", "utilisation, trace", "utilisation, counters",
           "updates per instance and layer", "mean staleness")


@dataclass(frozen=True)
class Schedule:
    name: str
    max_active_keys: int
    min_update_frequency: int


@dataclass
class Recording:
    """A run under a schedule. updates: how many all its nodes made; learners: nodes that make any."""

    schedule: Schedule
    run: object
    slices: list
    workers: int
    updates: int
    learners: int

    @property
    def rate(self):
        return self.run.instances / self.run.seconds

    @property
    def ends(self):
        """First start and last end, nanoseconds."""
        return self.slices[0].start, max(s.end for s in self.slices)

    def window(self, length):
        """`length` nanoseconds out of the middle, or all where the run is shorter."""
        start, end = self.ends
        length = min(length, end - start)
        middle = (start + end - length) // 2
        return middle, middle + length

    @property
    def traced(self):
        """Share of the time inside slices, over the whole run."""
        return gantt.utilisation(self.slices, self.workers, *self.ends)

    @property
    def counted(self):
        """Share of the time that workers were not idle, by their own counters."""
        return sum(self.run.busy) / self.workers

    @property
    def updates_per_instance(self):
        return self.updates / self.learners / self.run.instances

    @property
    def staleness(self):
        """Mean over gradients of the updates their node made between forward and backward."""
        return float((self.run.staleness * self.run.gradients).sum() / self.run.gradients.sum())


def schedules(workers):
    """Twice as many instances as workers fill the pipeline: half of them on the way there, half on the way back."""
    return [Schedule("pipeline flushed after every instance", 1, 1),
            Schedule("filled pipeline, rare updates", 2 * workers, RARE),
            Schedule("AMP", 2 * workers, 1)]


def images(count, rows=ROWS, width=WIDTH):
    """`count` instances of random images: what they show does not change what they cost."""
    import numpy as np

    from ...datasets.columns import batched
    rng = np.random.default_rng(0)
    return batched({"pixels": rng.random((count * rows, width), np.float32),
                    "label": rng.integers(0, CLASSES, count * rows)}, rows)


def record(schedule, workers, instances, width=WIDTH):
    """Train a new model on `instances` under a schedule, one message a call; returns its `Recording`."""
    from ...graphs import Machine, mlp
    from ...graphs.placement import follow
    from ...training.blas import single_threaded_blas
    graph = mlp(width, CLASSES, width, workers + 1).initialise(0)
    names = {f"linear{number + 1}": min(number, workers - 1) for number in range(workers + 1)} | {"loss": workers - 1}
    calls = 4 * (workers + 2) * len(instances)
    machine = Machine(graph, workers, schedule.min_update_frequency, ROWS, False, calls, follow(graph, workers, names))
    machine.optimizer("sgd", 0.01)
    with single_threaded_blas():
        run = machine.run(instances, max_active_keys=schedule.max_active_keys)
    found = gantt.slices(run.events, len(graph.nodes))
    machine.flush()
    return Recording(schedule, run, found, workers, sum(s.kind == gantt.UPDATE for s in found),
                     sum(bool(node.parameters) for node in graph.nodes))


def reproduce(lab):
    """Rounds in turn; of each schedule the round with the median rate is drawn and told."""
    workers = min(MOST_WORKERS, usable_cores())
    rounds, data = (1, images(40)) if lab.quick else (5, images(200))
    taken = [[] for _ in schedules(workers)]
    for number in range(rounds):
        for each, schedule in zip(taken, schedules(workers), strict=True):
            each.append(record(schedule, workers, data))
            lab.tell(f"{NAME}: round {number + 1} of {rounds}, {schedule.name}: {each[-1].rate:.0f} instances/s")
    chosen = [sorted(each, key=lambda r: r.rate)[len(each) // 2] for each in taken]
    rows = [(r.schedule.name, r.schedule.max_active_keys, r.schedule.min_update_frequency, r.rate, r.traced, r.counted,
             r.updates_per_instance, r.staleness) for r in chosen]
    lab.write_table(NAME, COLUMNS, rows, _caption(workers, len(data), rounds))
    lab.save(picture(chosen), NAME)


def picture(recordings):
    """The charts one below the other, all of the same length of time."""
    from matplotlib.figure import Figure
    length = int(DRAWN * 1e9 / recordings[0].rate)
    workers = recordings[0].workers
    figure = Figure(figsize=(10, len(recordings) * (0.45 * workers + 0.75) + 0.6), layout="constrained")
    charts = figure.subplots(len(recordings), 1, sharex=True)
    for letter, axes, r in zip("abc", charts, recordings, strict=True):
        start, end = r.window(length)
        gantt.draw(axes, r.slices, workers, start, end)
        share = gantt.utilisation(r.slices, workers, start, end)
        axes.set_title(f"({letter}) {r.schedule.name}: {r.rate:.0f} instances/s; {r.updates_per_instance:.2f} updates an "
                       f"instance and layer; busy {share:.0%} of the time drawn, {r.counted:.0%} of the run by counters",
                       size=8.5, loc="left")
    charts[-1].set_xlabel("ms")
    gantt.legend(charts[-1])
    return figure


def _caption(workers, instances, rounds):
    return (f"Three schedules of one perceptron with {workers} layers of {WIDTH} x {WIDTH}, each on a worker of its own, and a "
            f"classifier on the last; an instance is {ROWS} images, {instances} of them a run, one message a call. Of {rounds} "
            "rounds in turn the one with the median rate. Utilisation by trace is the share of a worker's time inside "
            "operations and updates; by counters, what it was not idle, so that bringing messages to their nodes counts too. "
            "Layers are not all alike: the first has no input gradient to compute, and the last worker has the classifier "
            "besides. Staleness is in updates of the node itself.")

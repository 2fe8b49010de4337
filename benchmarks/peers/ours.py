"""Our side of a contest: a graph trained by the machine as `Trainer` does, and its gradients for the check."""

from time import perf_counter

import numpy as np

from ampnet.experiments import TASKS
from ampnet.graphs import Machine
from ampnet.testing import check_drained
from ampnet.training import Trainer

from .contest import Contestant

SEED = 0
BIASES = 0.1   # deviation of the biases added, so that one in a wrong place is noticed
SMALLEST_RUN = 4   # times the instances in flight


class Ours:
    """Trains the sample over and over, in runs that take about as long as a turn, `seconds`."""

    def __init__(self, work, sample, threads, seconds, trace=False):
        self.work, self.sample, self.seconds = work, sample, seconds
        self.graph = self._graph()                       # keeps the initial values
        self.initial = {name: value.copy() for name, value in self.graph.parameters.items()}
        self.keys = max(work.keys, threads)
        model = self._graph()
        for node in model.nodes:
            if node.name in work.node_frequencies:
                node.min_update_frequency = -(-work.node_frequencies[node.name] // threads)   # shared by replicas, as all are
        self.trainer = Trainer(model, workers=threads, replicas=threads, max_active_keys=self.keys,
                               min_update_frequency=work.frequency, optimizer=work.optimizer, lr=work.lr, trace=trace)
        self.trainer.place(sample.instances)
        settings, self.machine = self.trainer.settings, self.trainer.machine
        self.machine.optimizer(settings.optimizer, settings.lr)
        self.at, self.run_length, self.trained = 0, min(len(sample.instances), SMALLEST_RUN * self.keys), 0

    def _graph(self):
        graph = TASKS[self.work.task].build(self.sample.options, self.sample.meta).initialise(SEED)
        rng = np.random.default_rng(SEED)
        for name, value in graph.parameters.items():
            if name.endswith(".bias"):
                value += BIASES * rng.standard_normal(value.shape).astype(np.float32)
        return graph

    def gradients(self, numbers):
        """(mean loss of an example, parameter -> mean gradient of an instance), all instances in flight at once, no update."""
        machine, parameters = Machine(self.graph), self.graph.named_parameters()
        machine.optimizer()
        for parameter in parameters.values():
            parameter.gradient[...] = 0
        run = machine.run(self.sample.instances, np.asarray(numbers), max_active_keys=len(numbers))
        machine.gather_held()
        check_drained(machine, run)
        gradients = {name: p.gradient / np.float32(len(numbers)) for name, p in parameters.items()}
        return run.loss.sum() / self.examples(numbers), gradients

    def examples(self, numbers):
        """What rates count: rows where these are exchangeable, else instances."""
        instances = self.sample.instances
        if not instances.exchangeable_rows:
            return len(numbers)
        return int(np.diff(next(iter(instances.columns.values())).offsets)[numbers].sum())

    def contestant(self):
        return Contestant("ours", self.step, warm=self.warm)

    def step(self):
        """A run over the next instances, whose leftover gradients are applied; replicas are averaged as after an epoch."""
        count = len(self.sample.instances)
        numbers = np.arange(self.at, min(count, self.at + self.run_length))
        self.at = (self.at + len(numbers)) % count
        self.machine.run(self.sample.instances, numbers, max_active_keys=self.keys)
        self.machine.flush()
        self.machine.average_replicas()
        self.trained += len(numbers)
        return self.examples(numbers)

    def warm(self):
        """Make runs equal parts of the sample, about as long as a turn."""
        self.step()
        started, trained = perf_counter(), self.trained
        while perf_counter() - started < self.seconds / 5:
            self.step()
        a_second = (self.trained - trained) / (perf_counter() - started)
        count = len(self.sample.instances)
        runs = max(1, round(count / max(self.run_length, a_second * self.seconds)))
        self.at, self.run_length = 0, -(-count // runs)
        self.trained, self.updates_before = 0, self.machine.engine.updates()

    def updates_a_batch(self):
        """(Updates of the node that made fewest, for as many instances as peers have in a batch; that node's name)."""
        updates = self.machine.engine.updates() - self.updates_before
        fewest, name = min((count, n.name) for n, count in zip(self.machine.graph.nodes, updates, strict=True) if n.parameters)
        return float(fewest * self.work.batch / self.trained), name

    def settings(self):
        s = self.trainer.settings
        own = "".join(f", of {name} {count}" for name, count in self.work.node_frequencies.items())
        return (f"workers {s.workers}, replicas {s.replicas}, max_active_keys {s.max_active_keys}, "
                f"min_update_frequency {s.min_update_frequency}{own}, {s.optimizer} {s.lr}")

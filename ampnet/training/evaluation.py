"""Evaluation through the same graph, forward only: losses answer with receipts, so instances retire as in training."""

from ..graphs.lowering import Machine
from .blas import single_threaded_blas
from .metrics import loss_and_metric

KEYS = 64  # instances in flight in evaluation, at least: there is no staleness to keep small


def run_evaluation(machine, instances, max_active_keys=KEYS):
    """One pass over `Instances` without learning; returns the `Run`."""
    return machine.run(instances, training=False, max_active_keys=max(KEYS, max_active_keys))


def evaluate(model, instances, workers=1, max_batch=128):
    """Loss and metric of a graph on `Instances`: a dict with `loss`, `metric`, `metric_name`, `instances`, `seconds`."""
    with single_threaded_blas():
        run = run_evaluation(Machine(model, workers, max_batch=max_batch), instances)
    loss, metric, name = loss_and_metric(model, run)
    return {"metric_name": name, "metric": metric, "loss": loss, "instances": instances.examples, "seconds": run.seconds,
            "instances_per_second": instances.examples / max(run.seconds, 1e-9)}

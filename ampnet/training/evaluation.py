"""Evaluation through the same graph, forward only: losses answer with receipts, so instances retire as in training."""

from ..graphs.lowering import Machine
from .blas import single_threaded_blas
from .metrics import loss_and_metric
from .orderfile import Unrecorded

NOT_RECORDED = Unrecorded()
KEYS = 64  # instances in flight in evaluation, at least: there is no staleness to keep small


def run_evaluation(machine, instances, max_active_keys=KEYS, predict=False, observe=None, runs=NOT_RECORDED):
    """One pass over `Instances` without learning; returns the `Run`, with predictions where those are wanted."""
    return runs.run(machine, instances, training=False, max_active_keys=max(KEYS, max_active_keys), predict=predict,
                    observe=observe)


def evaluate(model, instances, workers=1, max_batch=128, metrics=None):
    """Loss and metric of a graph on `Instances`: a dict with `loss`, `metric`, `metric_name`, `instances`, `seconds`.

    metrics: function (predictions by loss name, instances) -> dict of further ones; see `predict`.
    """
    with single_threaded_blas():
        run = run_evaluation(Machine(model, workers, max_batch=max_batch), instances, predict=metrics is not None)
    loss, metric, name = loss_and_metric(model, run)
    further = metrics(run.predictions, instances) if metrics is not None else {}
    return {"metric_name": name, "metric": metric, **further, "loss": loss, "instances": instances.examples,
            "seconds": run.seconds, "instances_per_second": instances.examples / max(run.seconds, 1e-9)}


def predict(model, instances, workers=1, max_batch=128):
    """Predictions of every loss: name -> (target rows of its column, width) float32.

    SoftmaxCrossEntropy gives logits, SquaredError values, SelectRow the number of the row.
    """
    with single_threaded_blas():
        return run_evaluation(Machine(model, workers, max_batch=max_batch), instances, predict=True).predictions

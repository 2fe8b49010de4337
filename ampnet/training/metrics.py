"""What an epoch is reported as: one JSON object a line in `metrics.jsonl`."""

import json
import resource
import sys

import numpy as np

from .checkpoint import append, write_atomically


def loss_and_metric(graph, run):
    """Mean loss over target rows, and the metric of the graph's losses: accuracy, or mean absolute error."""
    losses = [node for node in graph.nodes if node.is_loss]
    numbers = [node.number for node in losses]
    targets = max(1, int(run.targets[numbers].sum()))
    name = metric_name(graph)
    total = run.correct if name == "accuracy" else run.error
    widths = losses[-1].inputs[0].width if name != "accuracy" else 1
    return float(run.loss[numbers].sum() / targets), float(total[numbers].sum() / targets / widths), name


def metric_name(graph):
    """What `metric` means: that of the graph's last loss."""
    return [node for node in graph.nodes if node.is_loss][-1].metric


def better(name, new, old):
    """Whether a metric got better: accuracies rise, errors fall."""
    if old is None:
        return True
    return new > old if name == "accuracy" else new < old


def reached(name, value, target):
    """Whether a metric is at its target."""
    if target is None:
        return False
    return value >= target if name == "accuracy" else value <= target


def flops(graph, run):
    """Floating-point operations of a run, counted from the rows each node took; one that computes joins all its inputs."""
    backward, forward = run.rows
    return int(sum(forward[n.number] / len(n.inputs) * n.cost() + backward[n.number] * n.backward_cost()
                   for n in graph.nodes if n.inputs))


def epoch_metrics(graph, epoch, train, valid, further, examples, valid_examples, seconds):
    """One epoch as a plain dict; `train` and `valid` are `Run`s, `further` the metrics of the user."""
    train_loss, train_metric, name = loss_and_metric(graph, train)
    row = {"epoch": epoch, "seconds": seconds, "train_seconds": train.seconds,
           "train_loss": train_loss, "train_metric": train_metric}
    if valid is not None:
        row["valid_loss"], row["valid_metric"], _ = loss_and_metric(graph, valid)
        row |= further
        row["valid_instances_per_second"] = valid_examples / max(valid.seconds, 1e-9)
    with_parameters = [node for node in graph.nodes if node.parameters]
    row |= {
        "metric_name": name,
        "instances": examples,
        "instances_per_second": examples / max(train.seconds, 1e-9),
        "messages": train.messages,
        "messages_per_second": train.messages / max(train.seconds, 1e-9),
        "mean_rows": train.mean_rows,
        "busy": [round(b, 4) for b in train.busy],
        "staleness": {n.name: float(train.staleness[n.number]) for n in with_parameters},
        "staleness_histogram": {n.name: _without_end(train.delays[n.number]) for n in with_parameters},
        "updates": {n.name: int(train.updates[n.number]) for n in with_parameters},
        "flops_per_second": flops(graph, train) / max(train.seconds, 1e-9),
        "peak_memory": peak_memory(),
    }
    return row


def peak_memory():
    """The most memory this process ever had, in MiB."""
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


def _without_end(counts):
    """Counts as a list, up to the last one that is not 0."""
    return np.trim_zeros(counts, "b").tolist()


def append_json(path, row):
    """Append one line, whole or not at all. Raises CheckpointError."""
    append(path, (json.dumps(row, default=_plain) + "\n").encode())


def drop_epochs_after(epoch, path):
    """Take out the lines of epochs that no checkpoint followed: a resumed run does them again."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:  # the machine stopped while it was written
            continue
        if row.get("epoch", 0) <= epoch:
            kept.append(line + "\n")
    write_atomically(path, "".join(kept).encode())


def read_json_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def _plain(value):
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"cannot write {type(value).__name__}")

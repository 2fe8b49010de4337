"""Epochs and seconds to a task's target, for several numbers of instances in flight, workers and replicas.

    python -m benchmarks.convergence [TASK] [--data DIR] [--runs W:K[:R] ...] [--seed N] [--epochs N] [--json FILE]

A run is workers:max_active_keys, with replicas a third number. Trains with the defaults of `ampnet train TASK`, one run after
the other, and prints a Markdown table; 1:1 is synchronous training.
"""

import argparse
import json
from pathlib import Path

from ampnet.experiments import TASKS
from ampnet.training import Trainer, evaluate
from ampnet.training.progress import show, show_further

RUNS = ("1:1", "1:4", "1:16", "1:64", "2:1", "2:4", "2:16", "2:64", "2:32:2")


def train(task, data, config, changes, epochs):
    settings = config.settings.as_dict() | changes
    model = task.build(config.model, data.meta)
    metrics = task.metrics_for(data.meta)
    history = Trainer(model, **settings).fit(data, epochs or config.epochs, config.target, metrics=metrics)
    test = evaluate(model, data.test, metrics=metrics) if data.test is not None else {}
    last = history.last
    return {**changes, "reached": history.reached_target, "epochs": last["epoch"],
            "seconds": sum(e["seconds"] for e in history.epochs), "valid": last["valid_metric"],
            "metric_name": history.metric_name, "test": test.get("metric"), "further": show_further(test or last).strip(),
            "instances_per_second": last["instances_per_second"], "mean_rows": last["mean_rows"],
            "staleness": max(last["staleness"].values()), "busy": last["busy"]}


def parse_run(text):
    numbers = [int(part) for part in text.split(":")]
    return dict(zip(("workers", "max_active_keys", "replicas"), numbers, strict=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", nargs="?", default="list-reduction", choices=TASKS)
    parser.add_argument("--data")
    parser.add_argument("--runs", nargs="+", default=RUNS, metavar="W:K[:R]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    task = TASKS[options.task]
    config = task.resolve((None, {"seed": options.seed}))
    data = task.load_data(options.data, config)
    print("| workers | in flight | replicas | epochs to target | seconds | valid | test | instances/s | rows an operation | "
          "largest staleness | busy | |")
    print("|---" * 12 + "|")
    rows = []
    for run in options.runs:
        r = train(task, data, config, parse_run(run), options.epochs)
        rows.append(r)
        epochs = r["epochs"] if r["reached"] else f"not reached in {r['epochs']}"
        busy = " ".join(f"{b:.0%}" for b in r["busy"])
        test = "" if r["test"] is None else show(r["metric_name"], r["test"])
        print(f"| {r['workers']} | {r['max_active_keys']} | {r.get('replicas', 1)} | {epochs} | {r['seconds']:.0f} | "
              f"{show(r['metric_name'], r['valid'])} | {test} | {r['instances_per_second']:,.0f} | {r['mean_rows']:.1f} | "
              f"{r['staleness']:.2f} | {busy} | {r['further']} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

"""List reduction to 97 %: epochs and seconds for several numbers of instances in flight and workers.

    python -m benchmarks.convergence [--seed N] [--json FILE]

Trains with the defaults of `ampnet train list-reduction`, one run after the other, and prints a Markdown table.
"""

import argparse
import json
from pathlib import Path

from ampnet.datasets import list_reduction
from ampnet.experiments import TASKS
from ampnet.graphs import rnn
from ampnet.training import Trainer

KEYS, WORKERS = (1, 4, 16, 64), (1, 2)


def train(data, seed, keys, workers):
    config = TASKS["list-reduction"].resolve()
    settings = config.settings.as_dict() | {"seed": seed, "max_active_keys": keys, "workers": workers}
    history = Trainer(rnn(), **settings).fit(data, config.epochs, config.target)
    last = history.last
    return {"max_active_keys": keys, "workers": workers, "reached": history.reached_target, "epochs": last["epoch"],
            "seconds": sum(e["seconds"] for e in history.epochs), "valid_metric": last["valid_metric"],
            "instances_per_second": last["instances_per_second"], "mean_rows": last["mean_rows"],
            "staleness": last["staleness"]["cell"], "busy": last["busy"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    data = list_reduction.load(options.seed)
    print("| workers | max_active_keys | epochs to 97 % | seconds | instances/s | rows an operation | staleness | busy |")
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    for workers in WORKERS:
        for keys in KEYS:
            r = train(data, options.seed, keys, workers)
            rows.append(r)
            epochs = r["epochs"] if r["reached"] else f"not reached in {r['epochs']}"
            busy = " ".join(f"{b:.0%}" for b in r["busy"])
            print(f"| {workers} | {keys} | {epochs} | {r['seconds']:.0f} | {r['instances_per_second']:,.0f} | "
                  f"{r['mean_rows']:.1f} | {r['staleness']:.2f} | {busy} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

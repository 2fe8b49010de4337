"""Training throughput with two workers against one, alternating in one run: nodes spread, or replicas.

    python -m benchmarks.scaling [mnist|list-reduction|...] [--data DIR] [--instances N] [--rounds N] [--keys K] [--replicas R]

Prints instances/s of each round, the ratio of medians and how busy the workers were. Two workers train with --replicas copies.
"""

import argparse
from statistics import median

from ampnet.experiments import TASKS
from ampnet.training import Trainer

INSTANCES = {"mnist": 12_000, "list-reduction": 30_000, "sentiment": 1_500, "qm9": 2_000, "babi15": 1_000}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", nargs="?", default="mnist", choices=TASKS)
    parser.add_argument("--data")
    parser.add_argument("--instances", type=int)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--keys", type=int)
    parser.add_argument("--replicas", type=int, default=1)
    options = parser.parse_args()
    task = TASKS[options.task]
    config = task.resolve()
    dataset = task.load_data(options.data, config)
    few = dataset.train.take(options.instances or INSTANCES[options.task])
    keys = options.keys or config.settings.max_active_keys
    machines = {}
    for workers in (1, 2):
        settings = config.settings.as_dict() | {"workers": workers, "replicas": options.replicas if workers == 2 else 1}
        trainer = Trainer(task.build(config.model, dataset.meta), **settings)
        trainer.place(few)
        machines[workers] = trainer.machine
        s = trainer.settings
        machines[workers].optimizer(s.optimizer, s.lr)
    rates = {workers: [] for workers in machines}
    for round_ in range(options.rounds + 1):
        for workers, machine in machines.items():
            run = machine.run(few, max_active_keys=keys)
            machine.flush()
            if round_:   # the first round warms up
                rates[workers].append(few.examples / run.seconds)
                busy = " ".join(f"{b:.0%}" for b in run.busy)
                print(f"{workers} worker(s): {rates[workers][-1]:,.0f} instances/s, busy {busy}", flush=True)
    print(f"ratio of medians: {median(rates[2]) / median(rates[1]):.2f}")


if __name__ == "__main__":
    main()

"""MNIST training throughput with two workers against one, alternating in one run.

    python -m benchmarks.scaling [--data DIR] [--images N] [--rounds N]

Prints images/s of each round, the ratio of medians and how busy the workers were.
"""

import argparse
from statistics import median

from ampnet import datasets
from ampnet.experiments import TASKS
from ampnet.graphs import Machine, mlp


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data")
    parser.add_argument("--images", type=int, default=12_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    images = datasets.load("mnist", options.data).train.take(options.images)
    s = TASKS["mnist"].resolve().settings
    machines = {}
    for workers in (1, 2):
        machines[workers] = Machine(mlp().initialise(0), workers, s.min_update_frequency, s.max_batch)
        machines[workers].optimizer(s.optimizer, s.lr)
    rates = {workers: [] for workers in machines}
    for round_ in range(options.rounds + 1):
        for workers, machine in machines.items():
            run = machine.run(images, max_active_keys=s.max_active_keys)
            machine.flush()
            if round_:   # the first round warms up
                rates[workers].append(images.examples / run.seconds)
                busy = " ".join(f"{b:.0%}" for b in run.busy)
                print(f"{workers} worker(s): {rates[workers][-1]:,.0f} images/s, busy {busy}", flush=True)
    print(f"ratio of medians: {median(rates[2]) / median(rates[1]):.2f}")


if __name__ == "__main__":
    main()

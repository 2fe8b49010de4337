"""What one hop of a message costs: sent, brought to a node on this worker or another, and a trivial operation on it.

    python -m benchmarks.messages [--instances N] [--rounds N] [--json FILE]

Trains chains  source -> Linear(1, 1) -> k trivial nodes -> SquaredError  on instances of one row and one column. A hop is one
message received, forward or backward; their numbers come from the machine's counters, after the invariant was checked. The
difference between two lengths k, divided by the difference in hops, is free of what source, Linear, loss, start and stop cost.
Finding the fullest of all waiting lists takes longer the more nodes there are: what is counted is about that of a graph of
the two lengths together.

    Pass   waits in a list, is chosen, and its operation passes the messages on
    Phi    is called on arrival, message by message; stores the state in its table, and takes it out backward

On one worker all hops are local. On two, nodes alternate between them, so that every hop goes through a queue; with one
instance in flight that is the latency between two cores, and with many it is wall time while both work. Without coalescing an
operation takes one message; Phi always does.

All runs of a round come one after the other, and short and long chains by turns. Nanoseconds a hop are the median of the
rounds, with the range; behind them is how many messages an operation of the added nodes took on average. With one instance in
flight a run has a tenth of the instances. Where other programs use the cores, remote hops wait for them: up to 0.1 ms and more.
"""

import argparse
import json
from itertools import product
from pathlib import Path
from statistics import mean, median

import numpy as np

from ampnet.datasets import Column, Instances
from ampnet.graphs import Graph, Linear, Machine, Phi, SquaredError
from ampnet.graphs.kit import DONE, Node, messages, operation, pass_back, pass_on
from ampnet.testing import check_drained

from .rounds import by_turns, print_table

LENGTHS = (4, 20)     # both even: first and last node of a chain are on the same workers in both
KEYS = (1, 16, 100)   # instances in flight


class Pass(Node):
    """Y = X."""

    def output_widths(self, widths):
        return widths


@operation
def forward(worker, node, batch, count):
    """The message itself goes on."""
    for message in messages(batch, count):
        pass_on(worker, node, 0, message)
    return DONE


@operation
def backward(worker, node, batch, count):
    """The message itself goes back."""
    for message in messages(batch, count):
        pass_back(worker, node, 0, message)
    return DONE


Pass.forward, Pass.backward = forward, backward

SETUPS = ((Pass, 1, True), (Pass, 1, False), (Pass, 2, True), (Pass, 2, False), (Phi, 1, True), (Phi, 2, True))


class Chain:
    """A machine for one length of the chain, and what its last run counted."""

    def __init__(self, kind, workers, coalesce, length):
        graph = Graph()
        x = Linear(1, 1)(graph.matrix("x", 1))
        self.added = [kind() for _ in range(length)]
        for node in self.added:
            x = node(x)
        SquaredError("target")(x)
        placed = [node for node in graph.nodes if not node.roaming]
        self.machine = Machine(graph, workers, coalesce=coalesce,
                               placement={node: i % workers for i, node in enumerate(placed)})
        self.machine.optimizer("sgd", 0.1)
        self.runs = {}

    def run(self, data, keys):
        """Train once; returns the seconds."""
        run = self.machine.run(data, max_active_keys=keys)
        self.machine.gather_held()
        check_drained(self.machine, run)
        self.runs[keys] = run
        return run.seconds

    def hops(self, keys):
        """Messages received (forward, backward)."""
        run = self.runs[keys]
        return int(run.received_forward.sum()), int(run.received_backward.sum())

    def messages_a_call(self, keys):
        """Mean over the operations of the added nodes; 1 where they are called on arrival."""
        run, numbers = self.runs[keys], [node.number for node in self.added]
        calls = run.calls[:, numbers].sum()
        return float(run.rows[:, numbers].sum() / calls) if calls else 1.0


def pairs(count, rng):
    """Instances of one number and its target."""
    return Instances({name: Column(rng.standard_normal(count), name=name) for name in ("x", "target")})


def measure(instances, rounds):
    """Run all setups by turns; returns a dict for each setup and number of keys."""
    data = {keys: pairs(max(1, instances // 10) if keys == 1 else instances, np.random.default_rng(0)) for keys in KEYS}
    chains = {(*setup, length): Chain(*setup, length) for setup, length in product(SETUPS, LENGTHS)}
    measures = {(setup, keys, length): lambda chain=chains[(*setup, length)], keys=keys: chain.run(data[keys], keys)
                for setup, keys, length in product(SETUPS, KEYS, LENGTHS)}
    seconds = by_turns(measures, rounds)
    results = []
    for setup, keys in product(SETUPS, KEYS):
        short, long = (chains[(*setup, length)] for length in LENGTHS)
        hops = [b - a for a, b in zip(short.hops(keys), long.hops(keys), strict=True)]
        times = [(b - a) / sum(hops) * 1e9 for a, b in zip(*(seconds[setup, keys, n] for n in LENGTHS), strict=True)]
        kind, workers, coalesce = setup
        results.append({"node": kind.__name__, "workers": workers, "coalesce": coalesce, "max_active_keys": keys,
                        "instances": len(data[keys]), "forward_hops": hops[0], "backward_hops": hops[1],
                        "nanoseconds": times, "messages_a_call": long.messages_a_call(keys)})
    return results


def show(result):
    times = result["nanoseconds"]
    return f"{median(times):,.0f} ({min(times):,.0f} to {max(times):,.0f}), {result['messages_a_call']:.1f} a call"


def print_results(results):
    rows = []
    for kind, workers, coalesce in SETUPS:
        mine = [r for r in results if (r["node"], r["workers"], r["coalesce"]) == (kind.__name__, workers, coalesce)]
        taken = "on arrival" if kind is Phi else "coalesced" if coalesce else "one by one"
        rows.append([kind.__name__, "local" if workers == 1 else "remote", taken, *map(show, mine)])
    print_table(["node", "hops", "taken", *(f"{keys} in flight" for keys in KEYS)], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=20_000, help="a run")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = measure(options.instances, options.rounds)
    added = LENGTHS[1] - LENGTHS[0]
    ways = [mean(r[name] / r["instances"] for r in results) / added for name in ("forward_hops", "backward_hops")]
    print(f"ns a hop: median (range) of {options.rounds} rounds of {options.instances:,} instances; chains of "
          f"{LENGTHS[0]} and {LENGTHS[1]} nodes; hops an added node and instance: {ways[0]:g} forward, {ways[1]:g} backward\n")
    print_results(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

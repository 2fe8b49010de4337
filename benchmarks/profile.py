"""Where the time of a work goes: share of each node and direction, of updates, and of what is between.

    python -m benchmarks.profile [WORK ...] [--data DIR] [--instances N]

Works and our settings are those of `benchmarks.peers`; one worker, traced. Nodes that are called on arrival, like `Phi`, are
not in a trace: they count as messages, as do queues and the loop of the worker. Tracing itself takes some 50 ns a call.
"""

import argparse

import numpy as np

from ampnet.experiments.paper.gantt import KINDS, UPDATE
from ampnet.runtime.worker import EVENT_WORDS
from ampnet.training.trainer import TRACE_EVENTS

from .peers.ours import Ours
from .peers.works import WORKS

START, END, NUMBER, ROWS = 0, 1, 2, 4   # columns of an event
SMALLEST_SHARE = 0.005                  # smaller ones are shown together


def profile(work, data, instances):
    """([(what, calls, rows a call, seconds)], largest first; seconds in all; instances) of one traced run after a warm one."""
    sample = work.sample(work.task, work.options, data)
    ours = Ours(work, sample, threads=1, seconds=0, trace=True)
    numbers = np.arange(min(instances, len(sample.instances)))
    for _ in range(2):
        run = ours.machine.run(sample.instances, numbers, max_active_keys=ours.keys)
    events, nodes = run.events[0].reshape(-1, EVENT_WORDS), ours.machine.graph.nodes
    if len(events) >= TRACE_EVENTS:
        raise SystemExit(f"{work.name}: a trace holds {TRACE_EVENTS:,} calls, take fewer instances")
    seconds, found = (events[:, END] - events[:, START]) / 1e9, []
    for number in np.unique(events[:, NUMBER]):
        mine, (kind, node) = events[:, NUMBER] == number, divmod(int(number), len(nodes))
        rows = None if KINDS[kind] == UPDATE else events[mine, ROWS].mean()
        found.append((f"{nodes[node].name} {KINDS[kind]}", int(mine.sum()), rows, seconds[mine].sum()))
    found.append(("messages", run.messages, None, run.seconds - seconds.sum()))
    return sorted(found, key=lambda row: -row[-1]), run.seconds, len(numbers)


def table(work, found, total, instances):
    """Lines of a Markdown table."""
    lines = [f"### {work.name}: {work.title}, {1e6 * total / instances:,.0f} us an instance", "",
             "| | share | calls an instance | rows a call | us a call |", "|---|---|---|---|---|"]
    shown = [row for row in found if row[-1] >= SMALLEST_SHARE * total]
    for what, calls, rows, seconds in shown:
        rows = "" if rows is None else f"{rows:.1f}"
        lines.append(f"| {what} | {seconds / total:.1%} | {calls / instances:.2g} | {rows} | {1e6 * seconds / calls:.2f} |")
    rest = 1 - sum(row[-1] for row in shown) / total
    return [*lines, f"| {len(found) - len(shown)} others | {rest:.1%} | | | |"]


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__.splitlines()[0])
    parser.add_argument("works", nargs="*", metavar="WORK", help=f"of {', '.join(WORKS)}; default: all")
    parser.add_argument("--data", help="folder of the data files, as of `ampnet train`")
    parser.add_argument("--instances", type=int, default=200)
    options = parser.parse_args()
    unknown = sorted(set(options.works) - set(WORKS))
    if unknown:
        parser.error(f"unknown work '{unknown[0]}'")
    for name in options.works or WORKS:
        print("\n".join(table(WORKS[name], *profile(WORKS[name], options.data, options.instances))), end="\n\n", flush=True)


if __name__ == "__main__":
    main()

"""Replicas: throughput and time to the target of list reduction with more and more copies of the model."""

from ..info import usable_cores
from . import plots
from .table1 import epochs_to_target, note, replicas_row, seconds_to_target
from .tables import Spread, spread

NAME = "replicas"
ABOUT = "Throughput and time to target of list reduction against the number of replicas, each on a core of its own if possible."
TASK = "list-reduction"
COUNTS = (1, 2, 4)
COLUMNS = ("replicas", "workers", "training instances/s", "epochs to target", "seconds to target",
           "throughput, times 1 replica", "note")


def reproduce(lab):
    workers = [min(count, usable_cores()) for count in COUNTS]
    results = lab.train_rows([replicas_row(TASK, lab.quick, c, w) for c, w in zip(COUNTS, workers, strict=True)])
    rates = [spread(result.typical("instances_per_second") for result in runs) for runs in results]
    seconds = [seconds_to_target(runs) for runs in results]
    times = [rate.median / rates[0].median if rate and rates[0] else None for rate in rates]
    rows = [[count, w, rate, epochs_to_target(runs), s, t, note(runs)]
            for count, w, rate, s, t, runs in zip(COUNTS, workers, rates, seconds, times, results, strict=True)]
    in_flight = results[0][0].spec.config.settings.max_active_keys
    lab.write_table("replicas", COLUMNS, rows,
                    f"Median over the seeds, and the range; {in_flight} instances in flight. Seconds as in table1.")
    lab.save(_draw(workers, rates, seconds), "replicas",
             "Bars: lowest and highest of the seeds; none: some seed did not reach the target. "
             "Dotted: as many times the throughput of one replica as there are workers.")


def _draw(workers, rates, seconds):
    figure, (left, right) = plots.panels(2)
    _points(left, rates, "training (instances/s)")
    if rates[0]:
        left.plot(range(len(COUNTS)), [rates[0].median * w for w in workers], linestyle=":", color="#555555", label="ideal")
        left.legend()
    _points(right, seconds, "time to target (s)")
    for panel in (left, right):
        panel.set_xlim(-0.3, len(COUNTS) - 0.7)
        panel.set_ylim(bottom=0)
    return figure


def _points(panel, spreads, label):
    """The medians against the number of replicas, with the range; those that are missing are left out."""
    known = [(x, s) for x, s in enumerate(spreads) if isinstance(s, Spread)]
    if known:
        x, s = zip(*known, strict=True)
        middles = [each.median for each in s]
        ranges = [[each.median - each.lowest for each in s], [each.highest - each.median for each in s]]
        panel.errorbar(x, middles, yerr=ranges, capsize=3, **plots.line(0))
    for x, missing in enumerate(spreads):
        if missing is None:
            panel.annotate("none", (x, 0), (0, 4), textcoords="offset points", ha="center", fontsize=8)
    panel.set_xticks(range(len(COUNTS)), COUNTS)
    panel.set_xlabel("replicas")
    panel.set_ylabel(label)

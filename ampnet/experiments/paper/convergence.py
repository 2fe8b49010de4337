"""Convergence: the validation metric against epochs and against seconds, for more and more instances in flight."""

from itertools import accumulate

from . import plots, sizes
from .table1 import keys_row

NAME = "convergence"
ABOUT = "The validation metric against epochs and against seconds, for several numbers of instances in flight, on one worker."
COLUMNS = ("task", "max_active_keys", "seed", "epoch", "seconds", "metric", "validation")


def reproduce(lab):
    rows = []
    for task in sizes.FULL:
        keys = (1, *sizes.of(task, lab.quick).keys)
        results = dict(zip(keys, lab.train_rows([keys_row(task, lab.quick, k) for k in keys]), strict=True))
        curves = {k: [_curve(result) for result in of_row if result.history] for k, of_row in results.items()}
        rows += [[task, k, result.spec.seed, epoch, seconds, result.history[0]["metric_name"], value]
                 for k, of_row in results.items() for result in of_row for epoch, seconds, value in _curve(result)]
        lab.write_table("convergence", COLUMNS, rows, "Every epoch of every run; seconds are those since the first "
                        "began, as in table1 without loading, compiling and saving.", inline=False)
        measured = [result for of_row in results.values() for result in of_row if result.history]
        if measured:
            lab.save(_draw(task, curves, measured[0]), task.replace("-", "_"),
                     f"{task}: each line is the run of a seed; the dotted line is the target, where runs stop.")


def _curve(result):
    """(epoch, seconds since the start, validation metric) of each epoch."""
    seconds = accumulate(row["seconds"] for row in result.history)
    return [(row["epoch"], s, row["valid_metric"]) for row, s in zip(result.history, seconds, strict=True)]


def _draw(task, curves, first):
    figure, axes = plots.panels(2, sharey=True)
    for number, (keys, runs) in enumerate(curves.items()):
        for i, run in enumerate(runs):
            epochs, seconds, values = zip(*run, strict=True)
            label = f"{keys} in flight" if i == 0 else None
            for panel, x in zip(axes, (epochs, seconds), strict=True):
                panel.plot(x, values, label=label, **plots.line(number))
    for panel, x in zip(axes, ("epochs", "seconds"), strict=True):
        panel.set_xlim(0, 1.05 * panel.dataLim.x1)
        panel.axhline(first.target, color="#555555", linestyle=":", linewidth=1)
        panel.set_xlabel(x)
    axes[0].xaxis.get_major_locator().set_params(integer=True)
    axes[0].set_ylabel(f"validation {first.metric}")
    axes[0].legend()
    figure.suptitle(task, fontsize=10)
    return figure

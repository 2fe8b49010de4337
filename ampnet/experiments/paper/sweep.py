"""Sweep: instances in flight against gradients an update, on list reduction with two replicas on two workers."""

import math

from . import plots, sizes
from .lab import Row
from .table1 import epochs_to_target, note, seconds_to_target
from .tables import Spread, show, spread

NAME = "sweep"
ABOUT = "max_active_keys against min_update_frequency on list reduction, with 2 replicas on 2 workers, at a constant rate."
TASK = "list-reduction"
MEASURES = ("epochs to target", "seconds to target", "training instances/s", "mean staleness")
COLUMNS = ("max_active_keys", "min_update_frequency", *MEASURES, "note")


def reproduce(lab):
    keys, frequencies = sizes.SWEEP_QUICK if lab.quick else sizes.SWEEP_FULL
    cells = [(k, f) for k in keys for f in frequencies]
    results = lab.train_rows([_row(lab.quick, k, f) for k, f in cells])
    measured = [[epochs_to_target(runs), seconds_to_target(runs), spread(r.typical("instances_per_second") for r in runs),
                 spread(r.staleness for r in runs)] for runs in results]
    lab.write_table("sweep", COLUMNS, [[*cell, *numbers, note(runs)]
                                       for cell, numbers, runs in zip(cells, measured, results, strict=True)],
                    f"Target {show(results[0][0].target)}. Median over the seeds, and the range. Seconds as in table1. "
                    "Staleness: updates of a node between forward and backward, the mean over the gradients of the node where "
                    "it is largest.")
    maps = {name: _grid([numbers[i] for numbers in measured], len(keys)) for i, name in enumerate(MEASURES)}
    limit = results[0][0].spec.config.epochs
    lab.save(_draw(maps, keys, frequencies, limit), "sweep",
             f"Hatched: the target was not reached in {limit} epochs by every seed. Dashed: lines of equal "
             "seconds, where every cell has them.")


def _row(quick, keys, frequency):
    options = {"max_active_keys": keys, "min_update_frequency": frequency, "replicas": 2, "workers": 2}
    others = sizes.QUICK[TASK].options if quick else sizes.SWEEP_OPTIONS
    return Row(f"{keys} in flight, {frequency} gradients an update", TASK, {**others, **options})


def _grid(spreads, rows):
    """The medians as rows of numbers, nan where there is none."""
    numbers = [s.median if isinstance(s, Spread) else math.nan for s in spreads]
    width = len(numbers) // rows
    return [numbers[i * width:(i + 1) * width] for i in range(rows)]


def _draw(maps, keys, frequencies, limit):
    figure, axes = plots.panels(2, 2)
    for panel, (name, grid) in zip(axes, maps.items(), strict=True):
        _map(panel, name, grid, limit)
        panel.set_title(name, fontsize=9)
        panel.set_xticks(range(len(frequencies)), frequencies)
        panel.set_yticks(range(len(keys)), keys)
        panel.grid(False)
    for panel in axes[2:]:
        panel.set_xlabel("min_update_frequency (gradients)")
    for panel in axes[::2]:
        panel.set_ylabel("max_active_keys (instances)")
    return figure


def _map(panel, name, grid, limit):
    """One heat map: dark is much. Its numbers stand in the cells."""
    import numpy as np
    values = np.array(grid)
    known = values[~np.isnan(values)]
    least, most = (known.min(), known.max()) if len(known) else (0.0, 1.0)
    panel.imshow(np.where(np.isnan(values), least, values), cmap="Greys", origin="lower", aspect="auto",
                 vmin=least - 0.3 * (most - least or 1), vmax=most + 0.5 * (most - least or 1))
    for (y, x), value in np.ndenumerate(values):
        if np.isnan(value):
            panel.add_patch(_hatched(x, y))
        text = f">{limit}" if np.isnan(value) and name.startswith("epochs") else "" if np.isnan(value) else _short(value)
        panel.text(x, y, text, ha="center", va="center", fontsize=8,
                   bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 1} if text else None)
    if name.startswith("seconds") and len(known) == values.size and most > least:
        panel.contour(values, levels=5, colors="black", linestyles="--", linewidths=1)


def _hatched(x, y):
    from matplotlib.patches import Rectangle
    return Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor="white", edgecolor="#777777", hatch="///", linewidth=0)


def _short(value):
    return f"{value / 1000:,.1f}k" if value >= 1000 else f"{value:.3g}"

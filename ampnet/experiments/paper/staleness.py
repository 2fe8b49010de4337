"""Staleness: how many updates a node made between an instance's forward and backward, for more and more in flight."""

from itertools import zip_longest

from . import plots, sizes
from .table1 import keys_row

NAME = "staleness"
ABOUT = "Updates of a node between an instance's forward and backward, for each node with parameters, on one worker."
COLUMNS = ("task", "node", "max_active_keys", "gradients", "mean", "share at 0", "95th percentile")
STALEST_COLUMNS = ("task", "max_active_keys", "stalest node", "mean", "95th percentile", "share at 0 of all gradients")
COUNT_COLUMNS = ("task", "node", "max_active_keys", "staleness", "gradients")
LAST = 32   # the last count is of this many updates and more


def reproduce(lab):
    rows, stalest, counts = [], [], []
    for task in sizes.FULL:
        keys = (1, *sizes.of(task, lab.quick).keys)
        results = dict(zip(keys, lab.train_rows([keys_row(task, lab.quick, k) for k in keys]), strict=True))
        histograms = {k: _together(runs) for k, runs in results.items()}
        rows += [[task, node, k, *_summary(h)] for k, nodes in histograms.items() for node, h in nodes.items()]
        counts += [[task, node, k, stale, count] for k, nodes in histograms.items() for node, h in nodes.items()
                   for stale, count in enumerate(h)]
        stalest += [[task, k, *_stalest(nodes)] for k, nodes in histograms.items() if nodes]
        _write(lab, rows, stalest, counts)
        if any(histograms.values()):
            lab.save(_draw(histograms), task.replace("-", "_"),
                     f"{task}: gradients by staleness, and the mean against the instances in flight. A point at {LAST} is of "
                     "that many updates and more.")


def _write(lab, rows, stalest, counts):
    what = ("Gradients of all epochs and seeds. Staleness of a gradient: updates that its node made between the forward and "
            f"the backward; {LAST} stands for all from there on.")
    lab.write_table("stalest", STALEST_COLUMNS, stalest, what)
    lab.write_table("staleness", COLUMNS, rows, "The same for every node.", inline=False)
    lab.write_table("histograms", COUNT_COLUMNS, counts, "Gradients by staleness.", inline=False)


def _together(runs) -> dict:
    """Node -> number of gradients by staleness, over all epochs of the runs. Nodes without gradients are left out."""
    sums = {}
    for run in runs:
        for row in run.history:
            for node, counts in row["staleness_histogram"].items():
                sums[node] = [a + b for a, b in zip_longest(sums.get(node, []), counts, fillvalue=0)]
    return {node: counts for node, counts in sums.items() if sum(counts)}


def _summary(counts):
    """(gradients, mean staleness, share at 0, 95th percentile)"""
    total = sum(counts)
    mean = sum(stale * count for stale, count in enumerate(counts)) / total
    below = 0
    for percentile, count in enumerate(counts):   # noqa: B007
        below += count
        if below >= 0.95 * total:
            break
    return total, mean, counts[0] / total, percentile


def _stalest(nodes):
    """(the node of the largest mean, its mean and 95th percentile, share at 0 of the gradients of all nodes)"""
    summaries = {node: _summary(counts) for node, counts in nodes.items()}
    node = max(summaries, key=lambda name: summaries[name][1])
    fresh = sum(counts[0] for counts in nodes.values()) / sum(total for total, *_ in summaries.values())
    return node, summaries[node][1], summaries[node][3], fresh


def _draw(histograms):
    """A panel a node, and one for the means."""
    names = list(dict.fromkeys(node for nodes in histograms.values() for node in nodes))
    means = {node: {k: _summary(nodes[node])[1] for k, nodes in histograms.items() if node in nodes} for node in names}
    longest = max(2, *(len(counts) for nodes in histograms.values() for counts in nodes.values()))
    columns = min(len(means) + 1, 4)
    lines = -(-(len(means) + 1) // columns)
    figure, axes = plots.panels(columns, lines, width=2.6, height=2.4)
    for panel, node in zip(axes, means, strict=False):
        for number, (keys, nodes) in enumerate(histograms.items()):
            if node in nodes:
                counts = nodes[node] + [0] * (longest - len(nodes[node]))
                panel.plot([count / sum(counts) for count in counts], label=keys, drawstyle="steps-mid",
                           **plots.line(number))
        panel.set_title(node, fontsize=9)
        panel.set_xlabel("staleness (updates)")
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.set_ylim(0, 1.03)
    axes[0].set_ylabel("share of gradients")
    axes[0].legend(title="in flight", fontsize=8)
    growth = axes[len(means)]
    for number, (node, by_keys) in enumerate(means.items()):
        growth.plot(list(by_keys), list(by_keys.values()), label=node, **plots.line(number))
    growth.set_ylim(bottom=0)
    growth.set_xscale("log", base=2)
    growth.set_xticks(list(histograms), list(histograms))
    growth.set_xlabel("max_active_keys (instances)")
    growth.set_ylabel("mean staleness (updates)")
    growth.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    for panel in axes[len(means) + 1:]:
        panel.set_axis_off()
    return figure

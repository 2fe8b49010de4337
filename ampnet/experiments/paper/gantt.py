"""A recorded trace as a Gantt chart: a lane a worker, a bar for every operation and update."""

from typing import NamedTuple

BACKWARD, FORWARD, UPDATE = KINDS = ("backward", "forward", "update")   # in the order of `Run.events`
COLOURS = {FORWARD: "#d6e6f4", BACKWARD: "#6aaed6", UPDATE: "#222222"}
BAR, MARK = 0.62, 0.14                # height of a bar and of the mark of an update, in lanes
LETTER = 0.09                         # inches a digit takes


class Slice(NamedTuple):
    """start, end: nanoseconds; node: its number; messages: of an update the gradients it had gathered; instance: of the
    first message."""

    worker: int
    start: int
    end: int
    kind: str
    node: int
    messages: int
    instance: int


def slices(events, node_count):
    """The slices of `Run.events`, by their start."""
    found = []
    for worker, array in enumerate(events):
        for start, end, number, messages, _, instance in array.tolist():
            kind, node = divmod(number, node_count)
            found.append(Slice(worker, start, end, KINDS[kind], node, messages, instance))
    return sorted(found, key=lambda s: s.start)


def utilisation(found, workers, start, end):
    """Share of the time from `start` to `end` that is inside slices, mean over workers. A worker's slices do not overlap."""
    inside = sum(max(0, min(s.end, end) - max(s.start, start)) for s in found)
    return inside / (workers * (end - start))


def draw(axes, found, workers, start, end):
    """The slices from `start` to `end`, in milliseconds from `start` on, instances numbered from the first that is seen."""
    seen = [s for s in found if s.end > start and s.start < end]
    first = min((s.instance for s in seen), default=0)
    inch = axes.get_position().width * axes.figure.get_size_inches()[0] / (end - start)   # of a nanosecond
    for s in seen:
        left, right = max(s.start, start), min(s.end, end)
        at, length = (left - start) / 1e6, (right - left) / 1e6
        axes.broken_barh([(at, length)], (s.worker - BAR / 2, BAR), facecolor=COLOURS[s.kind], edgecolor="white", linewidth=0.4)
        if s.kind == UPDATE:
            axes.plot(at + length / 2, s.worker - BAR / 2 - MARK, marker="v", markersize=4, color=COLOURS[UPDATE])
        elif (number := str(s.instance - first + 1)) and (right - left) * inch > LETTER * len(number):
            axes.text(at + length / 2, s.worker, number, ha="center", va="center", size=7)
    axes.set_xlim(0, (end - start) / 1e6)
    axes.set_ylim(workers - 0.5, -0.75)
    axes.set_yticks(range(workers), [f"worker {worker}" for worker in range(workers)])
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def legend(axes):
    """What the shades mean."""
    from matplotlib.patches import Patch
    patches = [Patch(facecolor=COLOURS[kind], edgecolor="#888888", label=kind) for kind in (FORWARD, BACKWARD, UPDATE)]
    axes.legend(handles=patches, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.45), frameon=False, fontsize=8)

"""Where boxes and edges go: layers from top to bottom, as few crossings as a few sweeps find, edges as straight as they can be.

The steps are those of Sugiyama et al. 1981: a layer for each box (the longest path to it, loops left out), an order within
each layer (barycentres), a place in it (a linear program, as in Gansner et al. 1993). An edge that is longer than a layer, and
one that closes a loop, which runs upwards, passes each layer on the way in a lane of its own, so no box is in its way.
"""

from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise

import numpy as np

SWEEPS = 24
STRAIGHT = {0: 1, 1: 2, 2: 8}   # how much a stretch of an edge wants to be vertical, by how many of its ends are lanes


@dataclass
class Layout:
    """Units are those of the widths given.

    layer: box -> layer, from 0 at the top; x: box -> centre; lanes: for each edge the (layer, x) it passes, from its source on.
    """

    layer: dict
    x: dict
    lanes: list
    layers: int
    width: float


def arrange(drawing, widths, lane, gap):
    """Lay a `Drawing` out. widths: box number -> width; lane: width kept for an edge that passes; gap: between any two."""
    layer = _layers(drawing)
    chains, order = _chains(drawing, layer)
    neighbours = [(a, b) for chain in chains for a, b in pairwise(chain)]
    order = _order(order, neighbours)
    sizes = {place: widths.get(place, lane) for places in order for place in places}
    x = _coordinates(order, neighbours, sizes, gap)
    at = {place: number for number, places in enumerate(order) for place in places}
    lanes = [[(at[place], x[place]) for place in chain[1:-1]] for chain in chains]
    right = max(x[place] + sizes[place] / 2 for place in x)
    return Layout(layer, {box.number: x[box.number] for box in drawing.boxes}, lanes, len(order), right)


def _layers(drawing):
    """Box number -> layer. Sources stand right above what they feed."""
    before = {box.number: [] for box in drawing.boxes}
    after = {box.number: [] for box in drawing.boxes}
    for edge in drawing.edges:
        if not edge.closes_loop:
            before[edge.target].append(edge.source)
            after[edge.source].append(edge.target)
    layer = {}
    for number in TopologicalSorter(before).static_order():
        layer[number] = max((layer[n] + 1 for n in before[number]), default=0)
    for number, sources in before.items():
        if not sources and after[number]:
            layer[number] = min(layer[n] for n in after[number]) - 1
    return layer


def _chains(drawing, layer):
    """For each edge the places it leads through, ends included; and all places, layer by layer.

    A place is a box's number, or (edge, layer) for a lane. A loop's edge has a lane in its ends' layers too: it leaves its
    source downwards and comes to its target from above, as all do.
    """
    order = [[] for _ in range(max(layer.values()) + 1)]
    for box in drawing.boxes:
        order[layer[box.number]].append(box.number)
    chains = []
    for number, edge in enumerate(drawing.edges):
        start, end = layer[edge.source], layer[edge.target]
        passed = range(start, end - 1, -1) if edge.closes_loop else range(start + 1, end)
        lanes = [(number, level) for level in passed]
        for lane in lanes:
            order[lane[1]].append(lane)
        chains.append([edge.source, *lanes, edge.target])
    return chains, order


def _order(order, neighbours):
    """Sort each layer by the means of where neighbours stand, down and up in turn; the order with the fewest crossings."""
    beside = {place: [] for places in order for place in places}
    for a, b in neighbours:
        beside[a].append(b)
        beside[b].append(a)
    level = {place: number for number, places in enumerate(order) for place in places}
    best, fewest = order, _crossings(order, neighbours, level)
    for sweep in range(SWEEPS):
        order = [list(places) for places in order]
        down = sweep % 2 == 0
        for number in range(len(order)) if down else reversed(range(len(order))):
            spot = {place: i / max(1, len(places) - 1) for places in order for i, place in enumerate(places)}
            means = {place: _mean_spot(place, beside[place], spot, level, -1 if down else 1) for place in order[number]}
            order[number].sort(key=means.get)
        crossings = _crossings(order, neighbours, level)
        if crossings < fewest:
            best, fewest = order, crossings
    return best


def _mean_spot(place, beside, spot, level, side):
    """Mean of where those stand that are beside a place in the layers above (side -1) or below (1); else those in its own."""
    found = [p for p in beside if (level[p] - level[place]) * side > 0]
    found = found or [p for p in beside if level[p] == level[place]] or [place]
    return sum(spot[p] for p in found) / len(found)


def _crossings(order, neighbours, level):
    """How many pairs of stretches between two layers cross, and, counted alike, how many boxes a turn within a layer skips."""
    spot = {place: i for places in order for i, place in enumerate(places)}
    between, skipped = {}, 0
    for a, b in neighbours:
        if level[a] == level[b]:
            skipped += abs(spot[a] - spot[b]) - 1
        else:
            upper, lower = sorted((a, b), key=level.get)
            between.setdefault(level[upper], []).append((spot[upper], spot[lower]))
    for stretches in between.values():
        ends = np.array(stretches)
        apart = np.sign(ends[:, None] - ends[None])
        skipped += int((apart[..., 0] * apart[..., 1] < 0).sum()) // 2
    return skipped


def _coordinates(order, neighbours, sizes, gap):
    """Place -> x, its centre: the sum of weighted |x(a) - x(b)| over stretches is least, with `gap` kept within layers."""
    from scipy.optimize import linprog
    from scipy.sparse import lil_matrix
    places = [place for row in order for place in row]
    column = {place: i for i, place in enumerate(places)}
    beside = [(a, b) for row in order for a, b in pairwise(row)]
    limits = lil_matrix((len(beside) + 2 * len(neighbours), len(places) + len(neighbours)))
    most = np.zeros(limits.shape[0])
    for i, (a, b) in enumerate(beside):   # x(a) - x(b) <= -distance
        limits[i, column[a]], limits[i, column[b]] = 1, -1
        most[i] = -(sizes[a] + sizes[b]) / 2 - gap
    aim = np.zeros(limits.shape[1])
    for i, (a, b) in enumerate(neighbours):   # an unknown for each stretch, at least |x(a) - x(b)|
        unknown = len(places) + i
        aim[unknown] = STRAIGHT[isinstance(a, tuple) + isinstance(b, tuple)]
        for row, sign in ((len(beside) + 2 * i, 1), (len(beside) + 2 * i + 1, -1)):
            limits[row, column[a]] += sign
            limits[row, column[b]] -= sign
            limits[row, unknown] = -1
    low = np.zeros(limits.shape[1])
    low[:len(places)] = [sizes[place] / 2 for place in places]
    aim[:len(places)] = 1e-6   # of equal ones the leftmost
    found = linprog(aim, limits.tocsr(), most, bounds=np.column_stack([low, np.full(len(low), np.inf)]))
    return {place: float(found.x[i]) for place, i in column.items()}

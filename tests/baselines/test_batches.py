"""Batches in NumPy, which need no PyTorch: groups, trees by level, joined graphs, against the data read one by one."""

import numpy as np
import pytest

from ampnet.baselines.batches import Forest, GraphSet, cut, groups_of_equal_length, rows_of
from tests.graphs import torch_models

NUMBERS = np.array([4, 0, 3, 1])   # with trees of one leaf, and a graph without an edge


def test_rows_of_instances_lie_one_after_the_other():
    rows, sizes = rows_of(np.array([0, 2, 2, 5]), np.array([2, 1, 0]))
    assert rows.tolist() == [2, 3, 4, 0, 1]
    assert sizes.tolist() == [3, 0, 2]


def test_groups_have_one_length_and_together_all_instances():
    offsets = np.cumsum([0, 3, 1, 3, 2, 1])
    assert [group.tolist() for group in groups_of_equal_length(offsets)] == [[1, 4], [3], [0, 2]]


def test_cut_keeps_all_numbers_and_only_the_last_batch_is_short():
    assert [batch.tolist() for batch in cut(np.arange(5), 2)] == [[0, 1], [2, 3], [4]]


def test_levels_hold_every_node_after_its_children():
    trees = torch_models.trees()
    forest = Forest(trees)
    plan = forest.levels(NUMBERS)
    words = np.concatenate([trees["words"][i] for i in NUMBERS])[:, 0]
    assert plan.words.tolist() == words.tolist()
    ends = [plan.leaves, *(end for _, end, _, _ in plan.levels)]
    assert ends[-1] == len(plan.labels) == sum(len(trees["label"][i]) for i in NUMBERS)
    children = []
    for (start, end, left, right), before in zip(plan.levels, ends, strict=False):
        assert start == before and len(left) == len(right) == end - start
        assert max(*left, *right) < start
        children += [*left, *right]
    assert len(set(children)) == len(children) == len(plan.labels) - len(NUMBERS)   # of all nodes but the roots


@pytest.mark.parametrize("number", range(6))
def test_a_single_trees_levels_are_its_own_nodes_by_height(number):
    trees = torch_models.trees()
    plan = Forest(trees).levels(np.array([number]))
    label, left, right = (trees[name][number][:, 0].astype(int) for name in ("label", "left", "right"))

    def height(node):
        return 0 if left[node] < 0 else 1 + max(height(left[node]), height(right[node]))

    order = sorted(range(len(label)), key=height)
    assert plan.labels.tolist() == label[order].tolist()
    for start, end, of_left, of_right in plan.levels:
        for at in range(start, end):
            assert (order[of_left[at - start]], order[of_right[at - start]]) == (left[order[at]], right[order[at]])


@pytest.mark.parametrize("tied", [True, False])
def test_joined_graphs_have_the_edges_of_each(tied):
    graphs = torch_models.graphs(tied)
    joined = GraphSet(graphs, 3 if tied else 6).join(NUMBERS)
    assert joined.annotation.tolist() == np.concatenate([graphs["annotation"][i] for i in NUMBERS]).tolist()
    expected, first = [], 0
    for place, number in enumerate(NUMBERS):
        nodes = len(graphs["annotation"][number])
        assert (joined.graph[first:first + nodes] == place).all()
        for source, target, kind in graphs["typed_edges"][number].astype(int):
            expected += [(first + source, first + target, kind),
                         (first + target, first + source, kind if tied else kind + 3)]
        first += nodes
    assert len(joined.graph) == first
    assert sorted(zip(joined.source, joined.target, joined.kind, strict=True)) == sorted(expected)

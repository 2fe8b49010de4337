"""Trees as the sentiment data set has them, made on the spot: nodes numbered leaves first, inner nodes in post-order."""

import numpy as np

from ampnet.datasets import Column, Instances


def tree_columns(trees, vocab=11, classes=5, seed=0):
    """trees: nested pairs; anything that is no pair is a leaf. Words and labels are drawn."""
    rng = np.random.default_rng(seed)
    columns = {name: [] for name in ("words", "label", "parent", "side", "left", "right")}
    leaf_offsets, node_offsets = [0], [0]
    for tree in trees:
        parent, side, left, right, leaves = _number(tree)
        columns["words"] += list(rng.integers(0, vocab, leaves))
        columns["label"] += list(rng.integers(0, classes, len(parent)))
        for name, values in (("parent", parent), ("side", side), ("left", left), ("right", right)):
            columns[name] += values
        leaf_offsets.append(leaf_offsets[-1] + leaves)
        node_offsets.append(node_offsets[-1] + len(parent))
    return Instances({name: Column(np.array(values), np.array(leaf_offsets if name == "words" else node_offsets), name)
                      for name, values in columns.items()})


def _number(tree):
    """(parent, side, left, right, leaves), without recursion."""
    order, todo, leaves = [], [(tree, False)], 0
    while todo:
        node, seen = todo.pop()
        if not isinstance(node, tuple):
            order.append("leaf")
            leaves += 1
        elif seen:
            order.append("branch")
        else:
            todo += [(node, True), (node[1], False), (node[0], False)]
    count = len(order)
    parent, side, left, right = [-1] * count, [0] * count, [-1] * count, [-1] * count
    stack, next_leaf, next_branch = [], 0, leaves
    for kind in order:
        if kind == "leaf":
            stack.append(next_leaf)
            next_leaf += 1
        else:
            b, a = stack.pop(), stack.pop()
            left[next_branch], right[next_branch] = a, b
            parent[a] = parent[b] = next_branch
            side[b] = 1
            stack.append(next_branch)
            next_branch += 1
    return parent, side, left, right, leaves


def random_tree(rng, leaves):
    parts = [0] * leaves
    while len(parts) > 1:
        i = rng.integers(len(parts) - 1)
        parts[i:i + 2] = [(parts[i], parts[i + 1])]
    return parts[0]


def left_chain(leaves):
    tree = 0
    for _ in range(leaves - 1):
        tree = (tree, 0)
    return tree


def right_chain(leaves):
    tree = 0
    for _ in range(leaves - 1):
        tree = (0, tree)
    return tree

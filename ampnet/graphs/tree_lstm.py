"""Binary Tree-LSTM with a classifier at every node of the tree.

    words -> Embedding -> Dropout -> Leaf --+
                                            v
           +------------- Branch --------> Phi -> Cond(has a parent) --(no: root)-----------------+
           |               ^  ^                      |                                            v
           |               |  |                    Bcast --------------------------------------> Phi
           |  left: Isu ---+  |                      |                                            |
           |   Isu(node = parent)  right: Isu <--- Cond(side)           loss <- Linear <- Dropout <- Narrow(h)
           +--------------------------------------------------- climbs until the root

The value of a cell is [h | c]. A message's state says which node of the tree it belongs to; both children of a node meet at
the branch cell under the number of their parent.
"""

from .graph import Graph
from .nodes import (
    Bcast,
    Cond,
    Dropout,
    Embedding,
    Isu,
    Linear,
    Narrow,
    Phi,
    SoftmaxCrossEntropy,
    TreeLSTMBranch,
    TreeLSTMLeaf,
)

EMBEDDING_SCALE = 0.3   # deviation of embeddings that start at random


def tree_lstm(vocab, classes=5, embedding=128, hidden=150, dropout=0.0, vectors=None):
    """Tree-LSTM of Tai et al. 2015 with cells of their own for leaves and branches.

    dropout: rate on the embeddings and before the classifier; vectors: first values of the embedding, (vocab, width), whose
    width then goes before `embedding`. Nodes of a tree are numbered leaves first. Reads the columns
    `words` (one id a leaf) and `label` (one a node), and the tables `parent`, `side` (1: right child), `left` and `right`.
    """
    g = Graph(state="node", tables="parent side left right")
    embedding = embedding if vectors is None else vectors.shape[1]
    word = Embedding(vocab, embedding, EMBEDDING_SCALE, vectors, name="embedding")(g.rows("words", index="node"))
    leaf = TreeLSTMLeaf(embedding, hidden, name="leaf")(Dropout(dropout, name="word_dropout")(word))
    value = Phi(name="value")(leaf)
    child, root = Cond(has_parent, name="has_parent")(value)
    climbs, stays = Bcast(name="both")(child)
    right, left = Cond(is_right, name="is_right")(climbs)
    branch = TreeLSTMBranch(hidden, name="branch")(
        Isu(to_parent, to_left, name="from_left")(left), Isu(to_parent, to_right, name="from_right")(right))
    value.close(branch)
    every = Phi(name="every")(stays, root)
    h = Dropout(dropout, name="dropout")(Narrow(hidden, name="h")(every))
    SoftmaxCrossEntropy("label", index="node", name="loss")(Linear(hidden, classes, name="classifier")(h))
    return g


def has_parent(s, tree):
    return tree.parent[s.node] >= 0


def is_right(s, tree):
    return tree.side[s.node]


def to_parent(s, tree):
    s.node = tree.parent[s.node]


def to_left(s, tree):
    s.node = tree.left[s.node]


def to_right(s, tree):
    s.node = tree.right[s.node]

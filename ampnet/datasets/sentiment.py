"""Stanford Sentiment Treebank: film review sentences as binary trees, with a sentiment for each phrase.

Files `train`, `dev` and `test`, each `NAME.txt.gz` or `NAME.txt` (packed goes first): UTF-8, one tree a line, which is
`(label word)` or `(label tree tree)`. Labels run from 0 (very negative) to 4 (very positive). Round brackets in a
sentence are written `-LRB-` and `-RRB-`, and stay so. A word ends only at an ASCII space or a bracket: some hold a
no-break space.

The nodes of a tree with L words are numbered: leaves 0..L-1 in the order of the sentence, then inner nodes in
post-order. So children come before their parents, and the root is 2L-2::

    (3 (2 (2 a) (1 b)) (4 c))     leaves a 0, b 1, c 2; (a b) is 3; root is 4

Source: R. Socher et al., "Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank", EMNLP 2013,
`trainDevTestTrees_PTB.zip`; 8,544 training, 1,101 development, 2,210 test trees.
"""

from __future__ import annotations

import re
import reprlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ampnet.datasets import files
from ampnet.datasets.columns import Column, Dataset, Instances
from ampnet.datasets.glove import Vectors
from ampnet.errors import DataError

LICENCE = "none stated; research use"
CLASSES = 5
UNKNOWN = "<unk>"
LARGEST_START = 0.05
"""Rows of words without a vector start within plus or minus this."""
CONTENT_SHA256 = {  # unpacked: the same whoever packed it, and when
    "train": "e2f3f41b0b1e6d4dddc0effe3bfc2d27ed8928079aa9a03d652311614fc5feb7",
    "dev": "0e9336aed6e4730e19f58d00a77b3f0297efdb755f7b5e598c98a05e3f97ea40",
    "test": "6e54806dee95cf80cd918e7dfb3f6770f6df24bf826f289a4d1f709e1c8f6761",
}
DOWNLOADS = (
    files.Download(
        "trainDevTestTrees_PTB.zip",
        ("https://nlp.stanford.edu/sentiment/",),
        "5c613a4f673fc74097d523a2c83f38e0cc462984d847b82c7aaf36b01cbbbfcc",
        members={f"trees/{name}.txt": sha256 for name, sha256 in CONTENT_SHA256.items()},
    ),
)

_TOKEN = re.compile(r"\([0-4] +[^() ]+ *\)|\([^() ]*|\)|[^() ]+")
"""A whole leaf goes as one, which halves the time; then "(" and label, ")", a word out of place."""
_LABELS = {f"({label}": label for label in range(CLASSES)}
_PER_NODE = ("label", "parent", "side", "left", "right")


@dataclass(eq=False, repr=False)
class Trees:
    """All trees of a file, one after the other; node numbers count from 0 within each tree (see the module's text).

    words : list of str, lower case: the leaves of all trees.
    leaf_offsets, node_offsets : (trees + 1,) int64, where the leaves and the nodes of each tree start.
    label, parent, side, left, right : (nodes,) int32. parent is -1 for a root; side is 1 for a right child, else 0;
        left and right are the children's numbers, -1 for leaves.
    """

    words: list[str]
    leaf_offsets: np.ndarray
    node_offsets: np.ndarray
    label: np.ndarray
    parent: np.ndarray
    side: np.ndarray
    left: np.ndarray
    right: np.ndarray

    def __len__(self) -> int:
        """Number of trees."""
        return len(self.node_offsets) - 1


def load(folder: str | Path, vectors: Vectors | None = None, seed: int = 0, *, hapax_unknown: bool = False) -> Dataset:
    """Read the treebank from the folder of its three files.

    Id 0 is `<unk>`. Then come the words of training in the order in which they first occur, then those words of `dev`
    and `test` that have a vector. All other words of these two get id 0.

    Parameters
    ----------
    vectors : first values of the embedding, see `glove.read`.
    seed : of the rows of words without a vector, which are drawn uniformly from -0.05..0.05.
    hapax_unknown : give words that occur only once in training id 0 too, so that its row gets trained. Used only
        without vectors: with them, such words have a meaning to start from.

    Returns
    -------
    Dataset whose instances are trees; valid is `dev`. Columns, all of width 1: `words` (ids), a row a leaf; `label`,
    `parent`, `side`, `left`, `right`, a row a node, as in `Trees`. meta: vocab (size), classes 5, vocabulary (words
    by id), vectors: (vocab, width) float32, or None without vectors.

    Raises
    ------
    DataError : a file is missing or damaged.
    """
    train, dev, test = splits = [read(find(folder, name)) for name in CONTENT_SHA256]
    counts = Counter(train.words)
    if vectors is None:
        kept = [word for word, count in counts.items() if count > 1 or not hapax_unknown]
    else:
        known = set(vectors.words)
        kept = [*counts, *(word for trees in (dev, test) for word in trees.words if word in known)]
    vocabulary = list(dict.fromkeys([UNKNOWN, *kept]))
    ids = {word: i for i, word in enumerate(vocabulary)}
    meta = {
        "vocab": len(vocabulary),
        "classes": CLASSES,
        "vocabulary": vocabulary,
        "vectors": None if vectors is None else _embedding(ids, vectors, seed),
    }
    return Dataset("sentiment", *(_instances(trees, ids) for trees in splits), meta=meta)


def check(folder: str | Path) -> list[str]:
    """Parse all three files, and compare their unpacked bytes with the published ones; returns lines to print.

    Raises
    ------
    DataError : a file is missing, damaged, or differs from the original.
    """
    lines = []
    for name, published in CONTENT_SHA256.items():
        path = find(folder, name)
        trees = read(path)
        files.verify(files.read(path), path, published)
        lines.append(f"sentiment: {len(trees):,} {name} trees, {len(trees.label):,} nodes, checksum as published")
    return lines


def find(folder: str | Path, name: str) -> Path:
    """The file of "train", "dev" or "test" in `folder`, packed or else unpacked; a `DataError` if it has neither."""
    return files.find(folder, f"{name}.txt.gz")


def read(path: str | Path) -> Trees:
    """Read the trees of a file, packed if its name ends in `.gz`. Blank lines are skipped.

    Raises
    ------
    DataError : the file is missing, damaged, not UTF-8 or without a tree, or a line is not one tree; names the line.
    """
    words, leaf_labels, inner, leaves = [], [], [], []
    for number, line in files.read_lines(path):
        if not line.strip():
            continue
        try:
            more_words, more_labels, more_inner = _parse(line)
        except DataError as error:
            raise DataError(f"{path}, line {number}: {error}") from None
        words += more_words
        leaf_labels += more_labels
        inner += more_inner
        leaves.append(len(more_words))
    if not leaves:
        raise DataError(f"{path}: expected at least one tree, found none")
    return _as_trees([word.lower() for word in words], leaf_labels, inner, np.array(leaves))


def _parse(line: str) -> tuple[list[str], list[int], list[int]]:
    """Words and labels of a tree's leaves; label, left, right of each of its inner nodes, in post-order."""
    leaves = line.count("(") // 2 + 1  # a binary tree has 2 * leaves - 1 nodes; what is none fails below
    words, leaf_labels, inner = [], [], []
    opened = []  # inner nodes not yet closed: label, then numbers of children (int), and words (str) to complain of
    for token in _TOKEN.findall(line):
        if words and not opened:
            raise DataError(f"expected the end of the line after the tree, found {reprlib.repr(token)}")
        if token == ")" and opened:
            node = opened.pop()
            if len(node) != 3 or str in map(type, node):
                raise DataError(_wrong_content(*node))
            part = leaves + len(inner) // 3
            inner += node
        elif token[-1] == ")" and token != ")":
            part = len(words)
            words.append(token[3:-1].strip(" "))
            leaf_labels.append(int(token[1]))
        elif token[0] == "(":
            if token not in _LABELS:
                raise DataError(f"expected a label in 0..4 after '(', found {reprlib.repr(token[1:])}")
            opened.append([_LABELS[token]])
            continue
        elif opened:
            part = token
        else:
            raise DataError(f"expected a tree, so '(', found {reprlib.repr(token)}")
        if opened:
            opened[-1].append(part)
    if opened:
        raise DataError(f"expected {len(opened)} more ')', found the end of the line")
    return words, leaf_labels, inner


def _wrong_content(label: int, *content: int | str) -> str:
    words = sum(isinstance(part, str) for part in content)
    found = f"trees: {len(content) - words}, words: {words}"
    return f"expected one word or two trees in each node, found one of label {label} with {found}"


def _as_trees(words: list[str], leaf_labels: list[int], inner: list[int], leaves: np.ndarray) -> Trees:
    """Join leaves and inner nodes tree by tree; leaves: (trees,) number of each tree's leaves."""
    sizes = 2 * leaves - 1
    node_offsets = _offsets(sizes)
    start = np.repeat(node_offsets[:-1], sizes)
    number = np.arange(len(start)) - start  # within its tree
    is_leaf = number < np.repeat(leaves, sizes)
    label, left, right, parent = np.full((4, len(start)), -1, np.int32)
    side = np.zeros(len(start), np.int32)
    label[is_leaf] = leaf_labels
    label[~is_leaf], left[~is_leaf], right[~is_leaf] = np.array(inner, np.int32).reshape(-1, 3).T
    for which, children in enumerate((left, right)):
        places = start[~is_leaf] + children[~is_leaf]
        parent[places] = number[~is_leaf]
        side[places] = which
    return Trees(words, _offsets(leaves), node_offsets, label, parent, side, left, right)


def _offsets(counts: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def _instances(trees: Trees, ids: dict[str, int]) -> Instances:
    words = np.array([ids.get(word, 0) for word in trees.words], np.int32)
    columns = {"words": Column(words, trees.leaf_offsets, "words")}
    for name in _PER_NODE:
        columns[name] = Column(getattr(trees, name), trees.node_offsets, name)
    return Instances(columns)


def _embedding(ids: dict[str, int], vectors: Vectors, seed: int) -> np.ndarray:
    """(vocab, width) float32: the vectors by id, and drawn rows where there is none."""
    shape = len(ids), vectors.values.shape[1]
    table = np.random.default_rng(seed).uniform(-LARGEST_START, LARGEST_START, shape).astype(np.float32)
    for word, value in zip(vectors.words, vectors.values, strict=True):
        if word in ids:
            table[ids[word]] = value
    return table

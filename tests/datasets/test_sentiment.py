import gzip
import hashlib
import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampnet.datasets import glove, sentiment
from ampnet.datasets.glove import Vectors
from ampnet.errors import DataError
from tests.datasets.conftest import REAL

NAMES = ("train", "dev", "test")
PER_NODE = ("label", "parent", "side", "left", "right")
SMALL = {
    "train": "(3 (2 The) (4 (3 Film) (1 the)))\n(0 bad)\n(2 (2 film) (2 odd))\n",
    "dev": "(1 (2 the) (1 new))\n(2 (2 film) (2 strange))\n",
    "test": "(4 (2 Odd) (3 (2 other) (3 new)))\n",
}


def check_fails(call, *parts):
    """`call` raises a DataError of one line, with these parts in it."""
    with pytest.raises(DataError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    for part in parts:
        assert part in text


def write(path, text):
    raw = text.encode()
    path.write_bytes(gzip.compress(raw, mtime=0) if path.suffix == ".gz" else raw)
    return path


@pytest.fixture
def folder(tmp_path):
    """A folder with three small files, packed."""
    for name, text in SMALL.items():
        write(tmp_path / f"{name}.txt.gz", text)
    return tmp_path


@pytest.fixture(scope="module")
def real_folder():
    if not REAL or not (Path(REAL) / "sst").is_dir():
        pytest.skip("AMPNET_DATA names no folder with sst/")
    return Path(REAL) / "sst"


@pytest.fixture(scope="module")
def real_trees(real_folder):
    return {name: sentiment.read(sentiment.find(real_folder, name)) for name in NAMES}


def reading(path, text):
    return lambda: sentiment.read(write(path, text))


def check_rows(trees, tree, **expected):
    """Rows of one tree, per column."""
    rows = slice(*trees.node_offsets[tree : tree + 2])
    assert {name: getattr(trees, name)[rows].tolist() for name in expected} == expected


def test_numbering(tmp_path):
    trees = sentiment.read(write(tmp_path / "a.txt", "(0 word)\n(4 (3 (2 A) (1 b)) (0 (1 c) (2 D)))\n"))
    assert len(trees) == 2
    assert trees.words == ["word", "a", "b", "c", "d"]
    assert trees.leaf_offsets.tolist() == [0, 1, 5]
    assert trees.node_offsets.tolist() == [0, 1, 8]
    check_rows(trees, 0, label=[0], parent=[-1], side=[0], left=[-1], right=[-1])
    check_rows(trees, 1, label=[2, 1, 1, 2, 3, 0, 4], parent=[4, 4, 5, 5, 6, 6, -1], side=[0, 1, 0, 1, 0, 1, 0])
    check_rows(trees, 1, left=[-1, -1, -1, -1, 0, 2, 4], right=[-1, -1, -1, -1, 1, 3, 5])
    assert {getattr(trees, name).dtype for name in PER_NODE} == {np.dtype(np.int32)}
    assert trees.leaf_offsets.dtype == trees.node_offsets.dtype == np.int64


def test_words_end_at_ascii_spaces_and_brackets_only(tmp_path):
    text = "(2 (2 8\u00a01\\/2) (2 (2 -LRB-) (2 (2 a\tb) (2 \u2028\x85x))))"
    trees = sentiment.read(write(tmp_path / "a.txt", text))
    assert trees.words == ["8\u00a01\\/2", "-lrb-", "a\tb", "\u2028\x85x"]


@pytest.mark.parametrize(
    "text", ["\n(2 a)\n\n \n(3 b)", "(2 a)\r\n\r\n(3 b)\r\n", " (2  a )\n  (3 b)  \n", "(2 a)\n(3 b)\n\n\n"]
)
def test_blank_lines_and_spaces_do_not_matter(tmp_path, text):
    trees = sentiment.read(write(tmp_path / "a.txt", text))
    assert trees.words == ["a", "b"]
    assert trees.label.tolist() == [2, 3]


def test_spaces_between_trees_do_not_matter(tmp_path):
    loose = sentiment.read(write(tmp_path / "a.txt", "(2  (3 a)  (1 b) )"))
    tight = sentiment.read(write(tmp_path / "a.txt", "(2(3 a)(1 b))"))
    assert loose.label.tolist() == tight.label.tolist() == [3, 1, 2]


# trees as tuples (label, word) or (label, left, right), and the definition of all numbers by recursion

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="() \r\n"), min_size=1, max_size=4)
labels = st.integers(0, 4)
tuples = st.recursive(st.tuples(labels, words), lambda trees: st.tuples(labels, trees, trees), max_leaves=12)


def text_of(tree):
    label, *content = tree
    inside = content[0] if len(content) == 1 else f"{text_of(content[0])} {text_of(content[1])}"
    return f"({label} {inside})"


def leaves_of(tree):
    return [tree] if len(tree) == 2 else leaves_of(tree[1]) + leaves_of(tree[2])


def reference(tree):
    """Rows [label, parent, side, left, right] of a tree by node number."""
    leaves = leaves_of(tree)
    rows = [[label, -1, 0, -1, -1] for label, _ in leaves]

    def visit(node, first_leaf):
        if len(node) == 2:
            return first_leaf
        left = visit(node[1], first_leaf)
        right = visit(node[2], first_leaf + len(leaves_of(node[1])))
        number = len(rows)
        rows.append([node[0], -1, 0, left, right])
        rows[left][1:3] = number, 0
        rows[right][1:3] = number, 1
        return number

    assert visit(tree, 0) == 2 * len(leaves) - 2
    return rows


def rows_of(trees, tree):
    rows = slice(*trees.node_offsets[tree : tree + 2])
    return np.stack([getattr(trees, name)[rows] for name in PER_NODE], axis=1).tolist()


def tuple_of(trees, tree):
    """The tree back as a tuple."""
    leaves = trees.words[slice(*trees.leaf_offsets[tree : tree + 2])]
    built = []
    for number, (label, _, _, left, right) in enumerate(rows_of(trees, tree)):
        built.append((label, leaves[number]) if left < 0 else (label, built[left], built[right]))
    return built[-1]


@given(st.lists(tuples, min_size=1, max_size=4))
def test_round_trip(tmp_path_factory, given_trees):
    path = tmp_path_factory.getbasetemp() / "round-trip.txt"
    trees = sentiment.read(write(path, "\n".join(map(text_of, given_trees))))
    assert len(trees) == len(given_trees)
    assert trees.words == [word.lower() for tree in given_trees for _, word in leaves_of(tree)]
    for i, tree in enumerate(given_trees):
        assert rows_of(trees, i) == reference(tree)


@given(st.text("()()() 024xa", max_size=30))
def test_any_line_is_a_tree_or_a_data_error(tmp_path_factory, line):
    path = tmp_path_factory.getbasetemp() / "noise.txt"
    try:
        trees = sentiment.read(write(path, line))
    except DataError as error:
        assert "noise.txt" in str(error)
        return
    tokens = re.compile(r"[()]|[^() ]+")
    assert len(trees) == 1
    assert tokens.findall(text_of(tuple_of(trees, 0))) == tokens.findall(line)


@given(st.binary(max_size=40))
def test_any_bytes_are_trees_or_a_data_error(tmp_path_factory, raw):
    for name in ("noise.txt", "noise.txt.gz"):
        path = tmp_path_factory.getbasetemp() / name
        path.write_bytes(raw)
        try:
            assert len(sentiment.read(path)) > 0
        except DataError as error:
            assert name in str(error)


@pytest.mark.parametrize("side", ["left", "right"])
def test_chain_of_5000_leaves(tmp_path, side):
    n = 5000
    if side == "left":
        line = "(1 " * (n - 1) + "(2 w0)" + "".join(f" (2 w{i}))" for i in range(1, n))
    else:
        line = "".join(f"(1 (2 w{i}) " for i in range(n - 1)) + f"(2 w{n - 1})" + ")" * (n - 1)
    path = write(tmp_path / "chain.txt", line)
    start = time.perf_counter()
    trees = sentiment.read(path)
    assert time.perf_counter() - start < 2  # a hundredth of it, if not quadratic
    assert trees.words == [f"w{i}" for i in range(n)]
    inner = np.arange(n, 2 * n - 1)
    below = np.r_[0 if side == "left" else n - 1, inner[:-1]]
    leaf = np.arange(1, n) if side == "left" else np.arange(n - 2, -1, -1)
    left, right = (below, leaf) if side == "left" else (leaf, below)
    np.testing.assert_array_equal(trees.left[n:], left)
    np.testing.assert_array_equal(trees.right[n:], right)
    np.testing.assert_array_equal(trees.parent[below], inner)
    np.testing.assert_array_equal(trees.parent[leaf], inner)
    assert trees.parent[-1] == -1
    assert trees.label.tolist() == [2] * n + [1] * (n - 1)
    assert trees.side[below[1:]].tolist() == [int(side == "right")] * (n - 2)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("(2 (2 a) (2 b)", "expected 1 more ')', found the end of the line"),
        ("(2 (2 (2 a) (2 b", "expected 3 more ')'"),
        ("(2", "expected 1 more ')'"),
        ("(2 (2 a) (2 b)))", "expected the end of the line after the tree, found ')'"),
        ("(2 a))", "expected the end of the line after the tree, found ')'"),
        (")", "expected a tree, so '(', found ')'"),
        ("(7 a)", "expected a label in 0..4 after '(', found '7'"),
        ("(2 (2 a) (5 b))", "expected a label in 0..4 after '(', found '5'"),
        ("(x (2 a) (2 b))", "expected a label in 0..4 after '(', found 'x'"),
        ("(-1 a)", "found '-1'"),
        ("(22 a)", "found '22'"),
        ("(2a)", "found '2a'"),
        ("(\u00b2 a)", "found '\u00b2'"),
        ("((2 a) (2 b))", "found ''"),
        ("( 2 a)", "found ''"),
        ("()", "found ''"),
        ("(2 (2 a) (2 b) (2 c))", "expected one word or two trees in each node, found one of label 2 with trees: 3, words: 0"),
        ("(3 (2 a))", "expected one word or two trees in each node, found one of label 3 with trees: 1, words: 0"),
        ("(2 (2 a) (1))", "expected one word or two trees in each node, found one of label 1 with trees: 0, words: 0"),
        ("(2 )", "found one of label 2 with trees: 0, words: 0"),
        ("(4 a b)", "found one of label 4 with trees: 0, words: 2"),
        ("(4 a (2 b))", "found one of label 4 with trees: 1, words: 1"),
        ("(4 (2 b) a)", "found one of label 4 with trees: 1, words: 1"),
        ("(4 (2 b) (2 c) a)", "found one of label 4 with trees: 2, words: 1"),
        ("(2 a) b", "expected the end of the line after the tree, found 'b'"),
        ("(2 a) (2 b)", "expected the end of the line after the tree, found '(2 b)'"),
        ("(2 a) (2 (2 b) (2 c))", "expected the end of the line after the tree, found '(2'"),
        ("a (2 b)", "expected a tree, so '(', found 'a'"),
        ("\ufeff(2 a)", "expected a tree, so '(', found"),
    ],
)
@pytest.mark.parametrize("name", ["bad.txt", "bad.txt.gz"])
def test_wrong_lines(tmp_path, name, line, message):
    check_fails(reading(tmp_path / name, f"(2 fine)\n\n{line}\n(2 fine)\n"), f"{name}, line 3: ", message)


def test_a_long_value_is_shortened(tmp_path):
    with pytest.raises(DataError, match=r"found 'xxx.*\.\.\..*xxx'") as caught:
        sentiment.read(write(tmp_path / "a.txt", "x" * 100_000))
    assert len(str(caught.value)) < 200 + len(str(tmp_path))


@pytest.mark.parametrize("text", ["", "\n\n", "  \n"])
def test_no_trees(tmp_path, text):
    for name in ("a.txt", "a.txt.gz"):
        check_fails(reading(tmp_path / name, text), f"{name}: expected at least one tree, found none")


def test_not_utf8(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"(2 a)\n(2 caf\xe9)\n")
    check_fails(lambda: sentiment.read(tmp_path / "a.txt"), "a.txt, line 2: expected UTF-8, found byte 0xe9")


def test_not_gzip(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(b"(2 a)\n")
    check_fails(lambda: sentiment.read(tmp_path / "a.txt.gz"), "a.txt.gz: expected a gzip file")


@pytest.mark.parametrize("name", NAMES)
def test_missing_file(folder, name):
    (folder / f"{name}.txt.gz").unlink()
    check_fails(lambda: sentiment.load(folder), f"{name}.txt.gz: no such file")


def test_packed_goes_first_and_unpacked_will_do(folder):
    write(folder / "dev.txt", "not read")
    assert sentiment.find(folder, "dev") == folder / "dev.txt.gz"
    write(folder / "dev.txt", SMALL["dev"])
    (folder / "dev.txt.gz").unlink()
    assert sentiment.find(str(folder), "dev") == folder / "dev.txt"
    assert len(sentiment.load(folder).valid) == 2


def words_of(dataset, part):
    """The words by id of all instances of a part, joined."""
    return [dataset.meta["vocabulary"][int(i)] for i in getattr(dataset, part)["words"].values[:, 0]]


def test_columns(folder):
    dataset = sentiment.load(folder)
    assert dataset.name == "sentiment"
    for name, part in zip(NAMES, (dataset.train, dataset.valid, dataset.test), strict=True):
        trees = sentiment.read(folder / f"{name}.txt.gz")
        assert list(part.columns) == ["words", *PER_NODE]
        assert len(part) == part.examples == len(trees)
        assert not part.exchangeable_rows
        np.testing.assert_array_equal(part["words"].offsets, trees.leaf_offsets)
        for column in PER_NODE:
            np.testing.assert_array_equal(part[column].offsets, trees.node_offsets)
            np.testing.assert_array_equal(part[column].values[:, 0], getattr(trees, column))


def test_words_that_occur_once_made_unknown(folder):
    dataset = sentiment.load(folder, hapax_unknown=True)
    assert dataset.meta == {"vocab": 3, "classes": 5, "vocabulary": ["<unk>", "the", "film"], "vectors": None}
    assert words_of(dataset, "train") == ["the", "film", "the", "<unk>", "film", "<unk>"]
    assert words_of(dataset, "valid") == ["the", "<unk>", "film", "<unk>"]
    assert words_of(dataset, "test") == ["<unk>"] * 3


def test_words_that_occur_once_are_kept_otherwise(folder):
    dataset = sentiment.load(folder)
    assert dataset.meta["vocabulary"] == ["<unk>", "the", "film", "bad", "odd"]
    assert words_of(dataset, "train") == ["the", "film", "the", "bad", "film", "odd"]
    assert words_of(dataset, "test") == ["odd", "<unk>", "<unk>"]


def some_vectors():
    names = ["other", "absent", "film", "new"]
    return Vectors(names, np.arange(8, dtype=np.float32).reshape(4, 2) + 1)


@pytest.mark.parametrize("hapax_unknown", [True, False])
def test_vectors(folder, hapax_unknown):
    dataset = sentiment.load(folder, some_vectors(), seed=3, hapax_unknown=hapax_unknown)
    assert dataset.meta["vocabulary"] == ["<unk>", "the", "film", "bad", "odd", "new", "other"]
    assert dataset.meta["vocab"] == 7
    assert words_of(dataset, "valid") == ["the", "new", "film", "<unk>"]
    assert words_of(dataset, "test") == ["odd", "other", "new"]
    table = dataset.meta["vectors"]
    assert (table.dtype, table.shape) == (np.float32, (7, 2))
    assert table[[2, 5, 6]].tolist() == [[5, 6], [7, 8], [1, 2]]
    drawn = table[[0, 1, 3, 4]]
    assert np.abs(drawn).max() <= np.float32(0.05)
    assert len(np.unique(drawn)) == drawn.size


def test_drawn_rows_depend_on_the_seed_only(folder):
    tables = [sentiment.load(folder, some_vectors(), seed).meta["vectors"] for seed in (0, 0, 1)]
    np.testing.assert_array_equal(tables[0], tables[1])
    drawn = [0, 1, 3, 4]
    assert (tables[0][drawn] != tables[2][drawn]).all()


def test_drawn_rows_are_uniform(tmp_path):
    text = "\n".join(f"(2 w{i})" for i in range(2000))
    for name in NAMES:
        write(tmp_path / f"{name}.txt", text)
    table = sentiment.load(tmp_path, Vectors(["x"], np.ones((1, 10), np.float32))).meta["vectors"]
    counts, _ = np.histogram(table, 10, (-0.0500001, 0.0500001))
    assert counts.sum() == table.size == 20_010
    assert (np.abs(counts / 2001 - 1) < 0.1).all()  # 4 standard deviations


def test_check_wants_the_published_bytes(folder):
    check_fails(lambda: sentiment.check(folder), "train.txt.gz: expected unpacked bytes of sha256 e2f3f41b")


def test_check_of_unpacked_files(tmp_path, monkeypatch):
    for name, text in SMALL.items():
        write(tmp_path / f"{name}.txt", text)
    sums = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in SMALL.items()}
    monkeypatch.setattr(sentiment, "CONTENT_SHA256", sums)
    assert sentiment.check(tmp_path)[1] == "sentiment: 2 dev trees, 6 nodes, checksum as published"
    write(tmp_path / "test.txt", SMALL["test"] + "\n")
    check_fails(lambda: sentiment.check(tmp_path), "test.txt: expected unpacked bytes of sha256", sums["test"])


def test_check_of_the_real_thing(real_folder):
    assert sentiment.check(real_folder) == [
        "sentiment: 8,544 train trees, 318,582 nodes, checksum as published",
        "sentiment: 1,101 dev trees, 41,447 nodes, checksum as published",
        "sentiment: 2,210 test trees, 82,600 nodes, checksum as published",
    ]


@pytest.mark.parametrize(
    ("name", "trees", "roots", "nodes", "labels", "words", "longest"),
    [
        ("train", 8544, [1092, 2218, 1624, 2322, 1288], 318_582, [8245, 34362, 219788, 44194, 11993], 163_563, 52),
        ("dev", 1101, [139, 289, 229, 279, 165], 41_447, [1070, 4613, 28305, 5781, 1678], 21_274, 49),
        ("test", 2210, [279, 633, 389, 510, 399], 82_600, [2008, 9255, 56548, 10998, 3791], 42_405, 56),
    ],
)
def test_counts_of_the_real_thing(real_trees, name, trees, roots, nodes, labels, words, longest):
    found = real_trees[name]
    assert len(found) == trees
    assert np.bincount(found.label[found.node_offsets[1:] - 1]).tolist() == roots
    assert len(found.label) == found.node_offsets[-1] == nodes
    assert np.bincount(found.label).tolist() == labels
    assert len(found.words) == found.leaf_offsets[-1] == words
    assert np.diff(found.leaf_offsets).max() == longest
    assert (found.parent == -1).sum() == trees


def test_words_of_the_real_thing(real_trees):
    found = [word for trees in real_trees.values() for word in trees.words]
    assert len(set(found)) == 19_538
    assert found[:4] == ["the", "rock", "is", "destined"]
    assert sum("\u00a0" in word for word in real_trees["train"].words) == 3


def test_the_real_thing_with_its_vectors(real_folder):
    path = glove.find(real_folder.parent)
    if not path:
        pytest.skip("AMPNET_DATA names no folder with glove/")
    vectors = glove.read(path)
    dataset = sentiment.load(real_folder, vectors)
    vocabulary, table = dataset.meta["vocabulary"], dataset.meta["vectors"]
    assert table.shape == (dataset.meta["vocab"], 50) == (len(vocabulary), 50)
    assert set(vectors.words) <= set(vocabulary)
    assert table[vocabulary.index("the"), 0] == np.float32(0.418)
    small = np.abs(table).max(axis=1) <= np.float32(0.05)
    assert small[0]
    assert small.sum() == len(vocabulary) - 17_773

import io
import os
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampnet.datasets import babi
from ampnet.datasets.babi import HAS_FEAR, IS, Graph
from ampnet.errors import DataError, SettingError

REAL = os.environ.get("AMPNET_DATA")
TYPES = {1: IS, 2: HAS_FEAR}
TWO_GRAPHS = "1 1 2\n3 1 4\n2 2 4\n4 2 2\n? 1 1 4\n? 1 3 2\n\n2 1 1\n1 2 3\n? 1 2 3\n\n"


@pytest.fixture
def real():
    """The folder of the real ten folds; skips where there is none."""
    if not REAL or not (Path(REAL) / "babi").is_dir():
        pytest.skip("AMPNET_DATA names no folder with babi/")
    return Path(REAL) / "babi"


def files_of(fold, part, text, types="is=1\nhas_fear=2\n"):
    start = f"symbolic/fold{fold}/{part}/15_"
    return {start + "graphs.txt": text, start + "edge_types.txt": types}


def small_fold():
    """Five training graphs, of which the last fears by types numbered the other way round, and two test graphs."""
    one = "1 1 2\n2 2 3\n? 1 1 3\n\n"
    return {**files_of(1, "train", one * 3 + TWO_GRAPHS), **files_of(1, "test", TWO_GRAPHS)}


def pack(folder, files):
    with tarfile.open(folder / babi.ARCHIVE, "w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))


def unpack(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def feared_by_rule(graph, asked):
    is_ = {s: t for s, t, k in graph.edges if k == IS}
    fears = {s: t for s, t, k in graph.edges if k == HAS_FEAR}
    return fears[is_[asked]]


def as_text(graphs, types):
    """The inverse of `read`."""
    number = {kind: number for number, kind in types.items()}
    lines = []
    for graph in graphs:
        lines += [f"{s + 1} {number[k]} {t + 1}" for s, t, k in graph.edges]
        lines += [f"? 1 {asked + 1} {answer + 1}" for asked, answer in graph.questions] + [""]
    return "\n".join(lines) + "\n"


def assert_same_values(found, expected):
    assert found.columns.keys() == expected.columns.keys()
    for name, column in found.columns.items():
        assert np.array_equal(column.values, expected[name].values)
        assert np.array_equal(column.offsets, expected[name].offsets)


def test_read():
    first, second = babi.read(TWO_GRAPHS, "g.txt", TYPES)
    assert first == Graph(4, [(0, 1, IS), (2, 3, IS), (1, 3, HAS_FEAR), (3, 1, HAS_FEAR)], [(0, 3), (2, 1)])
    assert second == Graph(3, [(1, 0, IS), (0, 2, HAS_FEAR)], [(1, 2)])


@pytest.mark.parametrize("text", [TWO_GRAPHS.rstrip("\n"), "\n\n" + TWO_GRAPHS + "\n", TWO_GRAPHS.replace("\n", "\r\n")])
def test_empty_lines_and_line_ends_do_not_matter(text):
    assert babi.read(text, "g.txt", TYPES) == babi.read(TWO_GRAPHS, "g.txt", TYPES)


@given(st.integers(0, 2**32), st.sampled_from([TYPES, {1: HAS_FEAR, 2: IS}]))
def test_round_trip(seed, types):
    graphs = babi.generate(3, np.random.default_rng(seed))
    assert babi.read(as_text(graphs, types), "g.txt", types) == graphs


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 1 2\n1 2\n", "line 2: expected 'node type node', found '1 2'"),
        ("1 1 2 3\n", "line 1: expected 'node type node', found '1 1 2 3'"),
        ("1 1 2\n? 1 2\n", r"line 2: expected '\? type node answer', found '\? 1 2'"),
        ("1 1 two\n", "line 1: expected 'node type node' in whole numbers, found 'two' in '1 1 two'"),
        ("1 1 2\n? 1 1 2.0\n", "line 2: expected .* in whole numbers, found '2.0'"),
        ("0 1 2\n", "line 1: expected nodes of 1 or more, found 0 in '0 1 2'"),
        ("1 1 -2\n", "line 1: expected nodes of 1 or more, found -2 in '1 1 -2'"),
        ("1 3 2\n", r"line 1: expected an edge type out of \[1, 2\], found 3 in '1 3 2'"),
        ("? 1 1 2\n", r"line 1: expected edges of a graph before its questions, found '\? 1 1 2'"),
        (TWO_GRAPHS + "? 1 1 2\n", "line 12: expected edges of a graph before its questions"),
        ("1 1 2\n? 1 1 3\n", r"line 2: expected nodes of 1 to 2, found 3 in '\? 1 1 3'"),
        ("1 1 2\n? 1 0 1\n", "line 2: expected nodes of 1 to 2, found 0"),
        ("1 1 2\n\n", "line 2: expected a question about the graph, found its end"),
        ("", ": expected at least one graph, found none"),
        ("\n\n", ": expected at least one graph, found none"),
    ],
)
def test_wrong_lines(text, said):
    with pytest.raises(DataError, match=f"^g.txt.*{said}") as caught:
        babi.read(text, "g.txt", TYPES)
    assert "\n" not in str(caught.value)


@given(st.text("?123 \n-x", max_size=40))
def test_any_text_gives_graphs_or_a_data_error(text):
    try:
        assert all(graph.questions for graph in babi.read(text, "g.txt", TYPES))
    except DataError as error:
        assert "g.txt" in str(error)


def test_edge_types_go_by_name():
    assert babi.read_edge_types("is=1\nhas_fear=2\n", "t.txt") == {1: IS, 2: HAS_FEAR}
    assert babi.read_edge_types("has_fear=1\nis=2", "t.txt") == {1: HAS_FEAR, 2: IS}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("is=1\nlikes=2\n", "t.txt, line 2: expected 'is=NUMBER' or 'has_fear=NUMBER', found 'likes=2'"),
        ("is=one\n", "t.txt, line 1: expected .* found 'is=one'"),
        ("is 1\n", "t.txt, line 1: expected .* found 'is 1'"),
        ("is=1\nhas_fear=1\n", "t.txt, line 2: expected each name and number once, found 'has_fear=1' again"),
        ("is=1\nis=2\n", "t.txt, line 2: expected each name and number once, found 'is=2' again"),
        ("is=1\n", "t.txt: expected the numbers of is and has_fear, found 1 of them"),
        ("", "t.txt: .*found 0 of them"),
    ],
)
def test_wrong_edge_types(text, said):
    with pytest.raises(DataError, match=said):
        babi.read_edge_types(text, "t.txt")


@pytest.mark.parametrize("write", [pack, unpack])
def test_small_fold(tmp_path, write):
    write(tmp_path, small_fold())
    dataset = babi.load(tmp_path, graphs=3, nodes=6)
    assert dataset.name == "babi15"
    assert dataset.meta == {"annotation": 1, "edge_types": 4, "nodes": 6, "source": "fold 1"}
    assert [part.examples for part in (dataset.train, dataset.valid, dataset.test)] == [3, 3, 3]
    valid = dataset.valid
    assert [valid["annotation"][i][:, 0].tolist() for i in range(3)] == [np.eye(6)[asked].tolist() for asked in (0, 2, 1)]
    assert valid["answer"].values[:, 0].tolist() == [3, 1, 2]
    assert valid["sources1"][0].tolist() == valid["sources1"][1].tolist() == [[0], [2]]  # of node 1 is 2, 3 is 4
    assert valid["edges1"][0].tolist() == [[0, 1], [1, 3]]
    assert valid["sources4"][2].tolist() == [[2]]  # 1 has fear of 3, backward
    assert valid["edges4"][2].tolist() == [[0, 0]]
    assert_same_values(dataset.test, valid)


def test_the_packed_files_go_first(tmp_path):
    pack(tmp_path, small_fold())
    unpack(tmp_path, files_of(1, "train", "not a graph"))
    assert babi.load(tmp_path, graphs=3, nodes=6).train.examples == 3


def test_edge_types_numbered_anew_give_the_same_columns(tmp_path):
    graphs = babi.generate(8, np.random.default_rng(1))
    other = {1: HAS_FEAR, 2: IS}
    for fold, types, names in ((1, TYPES, "is=1\nhas_fear=2\n"), (2, other, "has_fear=1\nis=2\n")):
        for part in ("train", "test"):
            unpack(tmp_path, files_of(fold, part, as_text(graphs, types), names))
    one, two = (babi.load(tmp_path, fold=fold, graphs=4, fine=True) for fold in (1, 2))
    assert_same_values(one.train, two.train)


def test_fine_adds_columns(tmp_path):
    pack(tmp_path, small_fold())
    fused, fine = (babi.load(tmp_path, graphs=3, nodes=6, fine=fine).train.columns for fine in (False, True))
    assert {"annotation", "answer", *(f"{name}{k}" for name in ("sources", "edges") for k in range(1, 5))} == set(fused)
    assert {"edge_source", "first_edge", "typed"} <= set(fine) - set(fused)
    assert fine["edge_source"][0].tolist() == [[0], [1], [1], [2]]
    assert len(fine["out_degree"][0]) == 6


def test_a_graph_with_too_many_nodes(tmp_path):
    pack(tmp_path, small_fold())
    with pytest.raises(DataError, match="graph 0: expected at most 3 nodes, found 4"):
        babi.load(tmp_path, graphs=3, nodes=3)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"fold": 0}, "fold must be a whole number of 1 or more, not 0"),
        ({"fold": 11}, "fold must be in 1..10, not 11"),
        ({"graphs": 0}, "number of training graphs must be"),
        ({"graphs": 5}, "graphs must be below the 5 of the fold, to leave some for valid, not 5"),
        ({"nodes": 0}, "nodes must be"),
    ],
)
def test_settings_out_of_range(tmp_path, setting, said):
    pack(tmp_path, small_fold())
    with pytest.raises(SettingError, match=said):
        babi.load(tmp_path, **setting)


@pytest.mark.parametrize("seed", [-1, 0.5, "x"])
def test_wrong_seed(seed):
    with pytest.raises(SettingError, match="seed must be a whole number of 0 or more"):
        babi.load(seed=seed)


def test_missing_files(tmp_path):
    with pytest.raises(DataError, match=r"fold1/train/15_edge_types.txt: no such file, and no ggnn_symbolic"):
        babi.load(tmp_path)
    pack(tmp_path, small_fold())
    with pytest.raises(DataError, match=r"folds1-10.tar.gz: .*symbolic/fold2/train/15_edge_types.txt"):
        babi.load(tmp_path, fold=2)


@given(st.data())
def test_damaged_archive(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damaged")
    pack(folder, small_fold())
    raw = (folder / babi.ARCHIVE).read_bytes()
    whole = babi.load(folder, graphs=3)
    end, place = data.draw(st.integers(0, len(raw))), data.draw(st.integers(0, len(raw) - 1))
    damaged = bytearray(raw)
    damaged[place] ^= data.draw(st.integers(0, 255))
    (folder / babi.ARCHIVE).write_bytes(damaged[:end])
    try:
        assert_same_values(babi.load(folder, graphs=3).train, whole.train)  # a time stamp, say
    except DataError as error:
        assert babi.ARCHIVE in str(error)


def test_folders_and_other_bytes_instead_of_files(tmp_path):
    types = "symbolic/fold1/train/15_edge_types.txt"
    (tmp_path / types).mkdir(parents=True)
    with pytest.raises(DataError, match=f"{types}: cannot be read"):
        babi.load(tmp_path)
    (tmp_path / types).rmdir()
    unpack(tmp_path, {**small_fold(), types: "is=é"})
    with pytest.raises(DataError, match=f"{types}: expected ASCII text"):
        babi.load(tmp_path)
    with tarfile.open(tmp_path / babi.ARCHIVE, "w:gz") as tar:
        for name in files_of(1, "train", TWO_GRAPHS):
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE
            tar.addfile(member)
    with pytest.raises(DataError, match=f"expected a file {types}"):
        babi.load(tmp_path)


@given(st.integers(0, 2**32))
def test_generated_graphs(seed):
    (graph,) = babi.generate(1, np.random.default_rng(seed))
    is_ = {s: t for s, t, k in graph.edges if k == IS}
    fears = {s: t for s, t, k in graph.edges if k == HAS_FEAR}
    assert (graph.nodes, len(graph.edges), len(is_), len(fears)) == (8, 8, 4, 4)
    assert set(is_.values()) == set(fears)  # an individual of each kind
    assert set(is_) | set(fears) == set(range(8))
    assert set(fears.values()) <= set(fears)
    assert all(kind != feared for kind, feared in fears.items())
    assert {asked for asked, _ in graph.questions} == set(is_)
    assert all(answer == feared_by_rule(graph, asked) == babi.deduce(graph, asked) for asked, answer in graph.questions)


def fear_patterns(graphs):
    """How often each set of in-degrees by `has_fear` occurs."""
    return Counter(tuple(sorted(Counter(t for _, t, k in graph.edges if k == HAS_FEAR).values())) for graph in graphs)


def test_generated_graphs_are_distributed_like_the_real_ones():
    n = 20_000
    graphs = babi.generate(n, np.random.default_rng(0))
    # of the 81 ways in which four kinds can fear another: 48, 12, 12, 9
    expected = {(1, 1, 2): 48 / 81, (1, 3): 12 / 81, (2, 2): 12 / 81, (1, 1, 1, 1): 9 / 81}
    found = fear_patterns(graphs)
    assert set(found) == set(expected)
    for pattern, p in expected.items():
        assert abs(found[pattern] / n - p) < 5 * np.sqrt(p * (1 - p) / n)
    for number in range(8):  # every node asks as often, and every edge comes first as often
        asked = sum(graph.questions[0][0] == number for graph in graphs)
        assert abs(asked / n - 1 / 8) < 5 * np.sqrt(7 / 64 / n)
    assert abs(sum(graph.edges[0][2] for graph in graphs) / n - 1 / 2) < 5 / np.sqrt(4 * n)


def test_load_generated():
    dataset = babi.load(graphs=50, seed=3)
    assert dataset.meta["source"] == "generated"
    assert [part.examples for part in (dataset.train, dataset.valid, dataset.test)] == [200, 1000, 1000]
    assert np.array_equal(np.diff(dataset.train["annotation"].offsets), np.full(200, 54))
    assert dataset.train["annotation"].values.sum() == 200
    again, longer, other = babi.load(graphs=50, seed=3), babi.load(graphs=80, seed=3), babi.load(graphs=50, seed=4)
    assert_same_values(again.train, dataset.train)
    assert_same_values(longer.train.take(200), dataset.train)
    assert_same_values(longer.valid, dataset.valid)
    answers = [data["answer"].values[:200] for data in (dataset.train, dataset.valid, dataset.test, other.train)]
    assert all(not np.array_equal(answers[i], answers[j]) for i in range(4) for j in range(i))


def test_deduce_needs_one_edge_each():
    with pytest.raises(DataError, match="expected one edge 'is' from node 2, found 0"):
        babi.deduce(Graph(2, [(0, 1, IS)], []), 1)
    with pytest.raises(DataError, match="expected one edge 'has_fear' from node 2, found 2"):
        babi.deduce(Graph(2, [(0, 1, IS), (1, 0, HAS_FEAR), (1, 1, HAS_FEAR)], []), 0)


def test_check(tmp_path):
    for fold in range(1, 11):
        for part in ("train", "test"):
            unpack(tmp_path, files_of(fold, part, TWO_GRAPHS))
    lines = babi.check(tmp_path)
    assert len(lines) == 10
    assert lines[0].startswith("babi15: fold 1: 2 train graphs of 3 questions, 2 test graphs of 3 questions")
    unpack(tmp_path, files_of(7, "test", TWO_GRAPHS.replace("? 1 3 2", "? 1 3 1")))
    with pytest.raises(DataError, match="fold 7, test graph 0: answer 1 about node 3 must be 2"):
        babi.check(tmp_path)
    unpack(tmp_path, files_of(7, "test", TWO_GRAPHS.replace("? 1 3 2", "? 1 2 2")))
    with pytest.raises(DataError, match="fold 7, test graph 0: expected one edge 'is' from node 2"):
        babi.check(tmp_path)


def test_check_of_generated_graphs(monkeypatch):
    assert babi.check() == ["babi15: 1,000 generated graphs of 4,000 questions; all answers follow"]
    monkeypatch.setattr(babi, "deduce", lambda graph, asked: 8)
    with pytest.raises(DataError, match="^generated graph 0: answer . about node . must be 9"):
        babi.check()


def test_find(tmp_path):
    with pytest.raises(DataError, match=f"{babi.ARCHIVE}: no such file, and no symbolic/ beside it"):
        babi.find(tmp_path)
    unpack(tmp_path, small_fold())
    assert babi.find(tmp_path) == tmp_path / "symbolic"
    pack(tmp_path, small_fold())
    assert babi.find(str(tmp_path)) == tmp_path / babi.ARCHIVE


@pytest.mark.parametrize("fold", [1, 2, 3])
@pytest.mark.parametrize("part", ["train", "test"])
def test_real_folds(real, fold, part):
    graphs = babi.read_fold(real, fold, part)
    questions = [(graph, *question) for graph in graphs for question in graph.questions]
    assert (len(graphs), len(questions)) == (1000, 4000)
    assert all(graph.nodes == 8 for graph in graphs)
    assert all(answer == feared_by_rule(graph, asked) for graph, asked, answer in questions)
    assert set(fear_patterns(graphs)) == {(1, 1, 2), (1, 3), (2, 2), (1, 1, 1, 1)}


def test_real_data_set(real):
    assert fear_patterns(babi.read_fold(real, 1, "train")) == {(1, 1, 2): 589, (1, 3): 152, (2, 2): 151, (1, 1, 1, 1): 108}
    dataset = babi.load(real)
    assert [part.examples for part in (dataset.train, dataset.valid, dataset.test)] == [1000, 1000, 1000]
    assert dataset.train["annotation"][0][:, 0].nonzero()[0].tolist() == [0]  # the file starts: ? 1 1 5
    assert dataset.train["answer"].values[:4, 0].tolist() == [4, 3, 4, 1]
    assert dataset.valid["answer"].values[0, 0] == babi.read_fold(real, 1, "train")[250].questions[0][1]
    assert babi.load(real, graphs=999).valid.examples == 4


def test_check_real(real):
    lines = babi.check(real)
    assert all("1,000 train graphs of 4,000 questions, 1,000 test graphs of 4,000 questions" in line for line in lines)

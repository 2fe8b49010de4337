import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampnet.datasets import list_reduction
from ampnet.errors import DataError, SettingError

digit_lists = st.lists(st.integers(0, 9), min_size=1, max_size=9)


@pytest.mark.parametrize(
    ("operation", "digits", "label"),
    [
        (10, [7, 2, 9], 6),
        (10, [9], 9),
        (10, [1, 2], 1),
        (11, [5], 5),  # the mean of no digits is 0
        (11, [0, 9], 1),  # -9 modulo 10
        (11, [1, 4, 0], 7),  # 1/2 - 4 = -3.5, toward zero -3
        (11, [1, 1, 0], 0),  # -1/2, toward zero 0
        (11, [9, 3, 8], 5),
        (12, [3], 0),
        (12, [0, 9, 4], 9),
        (13, [0], 1),
        (13, [1] * 9, 9),
    ],
)
def test_reduce_by_hand(operation, digits, label):
    assert list_reduction.reduce(operation, digits) == label


def vectorised(operation, digits, filler):
    padded = np.full((1, 9), filler)
    padded[0, : len(digits)] = digits
    return list_reduction.reduce_all(np.array([operation]), np.array([len(digits)]), padded)[0]


@given(st.integers(10, 13), digit_lists, st.integers(0, 9))
def test_vectorised_ignores_what_lies_past_the_list(operation, digits, filler):
    assert vectorised(operation, digits, filler) == list_reduction.reduce(operation, digits)


def test_vectorised_agrees_with_the_definition():
    for split in (list_reduction.load(seed=5, train=6000, valid=3000).train, list_reduction.load(5, 1, 3000).valid):
        for i in range(len(split)):
            operation, *digits = split["tokens"][i][:, 0].astype(int).tolist()
            assert split["label"][i][0, 0] == list_reduction.reduce(operation, digits), (operation, digits)


def test_whole_data_set():
    dataset = list_reduction.load()
    assert (dataset.train.examples, dataset.valid.examples) == (100_000, 10_000)
    assert dataset.meta == {"vocab": 14, "classes": 10, "max_length": 10}
    for split in (dataset.train, dataset.valid):
        tokens, label = split["tokens"], split["label"]
        counts = np.diff(tokens.offsets)
        assert (tokens.width, label.width, label.rows) == (1, 1, len(split))
        assert (counts.min(), counts.max()) == (2, 10)
        first = np.zeros(tokens.rows, bool)
        first[tokens.offsets[:-1]] = True
        assert set(np.unique(tokens.values[first])) == {10, 11, 12, 13}
        assert set(np.unique(tokens.values[~first])) == set(range(10))
        assert set(np.unique(label.values)) == set(range(10))


def test_draws_are_uniform():
    tokens = list_reduction.load(seed=1).train["tokens"]
    ids = tokens.values[:, 0].astype(int)
    operations = np.bincount(ids[tokens.offsets[:-1]] - 10, minlength=4) / len(tokens)
    digits = np.bincount(ids, minlength=14)[:10] / (tokens.rows - len(tokens))
    lengths = np.bincount(np.diff(tokens.offsets) - 2, minlength=9) / len(tokens)
    for found in (operations, digits, lengths):
        np.testing.assert_allclose(found, 1 / len(found), rtol=0.05)


def same(a, b):
    return all(
        np.array_equal(a[name].values, b[name].values) and np.array_equal(a[name].offsets, b[name].offsets)
        for name in a.columns
    )


def test_seed_decides_everything():
    first, again, other = (list_reduction.load(seed, 500, 500) for seed in (3, 3, 4))
    assert same(first.train, again.train)
    assert same(first.valid, again.valid)
    assert not same(first.train, other.train)
    assert not same(first.valid, other.valid)
    assert not same(first.train, first.valid)


def test_validation_does_not_depend_on_the_training_size():
    assert same(list_reduction.load(0, 10, 200).valid, list_reduction.load(0, 999, 200).valid)


@pytest.mark.parametrize("seed", [-1, 0.5, "0", None])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(SettingError, match="seed"):
        list_reduction.load(seed, 10, 10)


@pytest.mark.parametrize("count", [0, -5, 2.5])
def test_bad_counts_are_refused(count):
    with pytest.raises(SettingError, match="training"):
        list_reduction.load(0, count, 10)
    with pytest.raises(SettingError, match="validation"):
        list_reduction.load(0, 10, count)


def test_check_passes_and_notices_a_wrong_label(monkeypatch):
    assert "2,000" in list_reduction.check()[0]
    monkeypatch.setattr(list_reduction, "reduce", lambda operation, digits: 10)
    with pytest.raises(DataError, match=r"instance 0: label \d of \[1\d, .*\] must be 10"):
        list_reduction.check(5)

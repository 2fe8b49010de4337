import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampnet.datasets import Column, Dataset, Instances
from ampnet.datasets.columns import LARGEST_ID, batched
from ampnet.errors import DataError, SettingError

lengths = st.lists(st.integers(0, 5), min_size=0, max_size=12)


def ragged(counts, width=2):
    """A column whose instance i has counts[i] rows; the rows count on from 0."""
    values = np.arange(sum(counts) * width, dtype=np.float32).reshape(-1, width)
    return Column(values, np.append(0, np.cumsum(counts, dtype=np.int64)), "ragged")


@given(lengths)
def test_rows_of_an_instance_are_a_view_of_its_rows(counts):
    column = ragged(counts)
    assert len(column) == len(counts)
    assert column.rows == sum(counts)
    assert [len(column[i]) for i in range(len(column))] == counts
    if counts:
        assert np.array_equal(np.concatenate([column[i] for i in range(len(column))]), column.values)
        assert np.array_equal(column[-1], column[len(column) - 1])


def test_an_instance_is_a_view():
    column = ragged([2, 3])
    assert np.shares_memory(column[1], column.values)
    with pytest.raises(IndexError):
        column[2]


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float16, np.float32, np.float64])
def test_values_become_contiguous_float32(dtype):
    column = Column(np.ones((4, 6), dtype)[:, ::2], [0, 4])
    assert column.values.dtype == np.float32
    assert column.values.flags.c_contiguous
    assert column.offsets.dtype == np.int64
    assert column.width == 3


def test_one_dimension_is_width_one_and_offsets_default_to_a_row_an_instance():
    column = Column([4, 5, 6])
    assert column.values.shape == (3, 1)
    assert column.offsets.tolist() == [0, 1, 2, 3]


def test_float32_is_not_copied():
    values = np.zeros((3, 2), np.float32)
    assert np.shares_memory(Column(values).values, values)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39, -1e300])
@pytest.mark.parametrize("row", [0, 3, 6])
def test_values_float32_cannot_hold_are_named(bad, row):
    values = np.zeros((7, 2))
    values[row, 1] = bad
    with pytest.raises(DataError, match=rf"'mass', row {row}: {bad} ".replace("+", r"\+")):
        Column(values, [0, 7], "mass")


@pytest.mark.parametrize("bad", [LARGEST_ID, -LARGEST_ID, 2**40, np.iinfo(np.int64).min])
def test_ids_float32_cannot_hold_are_named(bad):
    with pytest.raises(DataError, match=f"'tokens', row 1: id {bad} "):
        Column(np.array([1, bad, 2]), name="tokens")


def test_largest_ids_are_exact():
    ids = np.array([LARGEST_ID - 1, -LARGEST_ID + 1])
    assert Column(ids).values[:, 0].astype(np.int64).tolist() == ids.tolist()
    with pytest.raises(DataError):
        Column(np.array([2**63], np.uint64))


@pytest.mark.parametrize(
    "values",
    [np.zeros((2, 2, 2)), np.float32(1), np.zeros((3, 0)), np.array(["a"]), np.array([1j]), [[1], [1, 2]], [None]],
)
def test_values_of_no_matrix_are_refused(values):
    with pytest.raises(DataError, match="'x'"):
        Column(values, [0, 1], "x")


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([1, 3], "start at 0, not 1"),
        ([0, 2], "end at 2, but there are 3 rows"),
        ([0, 4], "end at 4, but there are 3 rows"),
        ([0, 2, 1, 3], "instance 1: offsets fall from 2 to 1"),
        ([0, 5, 3], "instance 1: offsets fall from 5 to 3"),
        ([], "integers of shape"),
        ([0.0, 3.0], "integers of shape"),
        ([[0, 3]], "integers of shape"),
    ],
)
def test_offsets_that_do_not_fit_are_refused(offsets, message):
    with pytest.raises(DataError, match=message):
        Column([1, 2, 3], offsets, "x")


def test_columns_must_have_the_same_number_of_instances():
    with pytest.raises(DataError, match="'a' has 2, 'b' has 3"):
        Instances({"a": ragged([1, 2]), "b": ragged([1, 2, 3])})
    with pytest.raises(DataError, match="at least one column"):
        Instances({})


def test_exchangeable_columns_must_have_the_same_offsets():
    Instances({"a": ragged([1, 2]), "b": ragged([2, 1])})
    with pytest.raises(DataError, match="'a' and 'b'"):
        Instances({"a": ragged([1, 2]), "b": ragged([2, 1])}, exchangeable_rows=True)


def test_an_unknown_column_lists_the_known():
    with pytest.raises(DataError, match=r"'c'; there are a, b"):
        Instances({"a": ragged([1]), "b": ragged([1])})["c"]


@given(lengths.filter(bool), st.integers(1, 15))
def test_take_counts_instances(counts, n):
    instances = Instances({"a": ragged(counts), "label": Column(range(len(counts)))})
    taken = instances.take(n)
    assert taken.examples == len(taken) == min(n, len(counts))
    for name in instances.columns:
        for i in range(len(taken)):
            assert np.array_equal(taken[name][i], instances[name][i])


@given(rows=st.integers(1, 30), batch=st.integers(1, 12), n=st.integers(1, 40))
def test_take_counts_exchangeable_rows(rows, batch, n):
    instances = batched({"a": np.arange(rows * 3).reshape(rows, 3), "label": np.arange(rows)}, batch)
    assert instances.exchangeable_rows
    assert instances.examples == rows
    assert len(instances) == -(-rows // batch)
    taken = instances.take(n)
    kept = min(n, rows)
    assert taken.exchangeable_rows
    assert taken.examples == kept
    assert np.diff(taken["a"].offsets).tolist() == [batch] * (kept // batch) + [kept % batch] * (kept % batch > 0)
    assert taken["label"].values[:, 0].tolist() == list(range(kept))


@pytest.mark.parametrize("n", [0, -1, 1.5, "3", None])
def test_counts_must_be_positive_integers(n):
    instances = batched({"a": np.zeros(4)}, 2)
    with pytest.raises(SettingError, match="whole number of 1 or more"):
        instances.take(n)
    with pytest.raises(SettingError, match="batch"):
        batched({"a": np.zeros(4)}, n)


def test_batched_rows_must_agree():
    with pytest.raises(DataError, match="'a' has 4, 'b' has 3"):
        batched({"a": np.zeros(4), "b": np.zeros(3)}, 2)


def test_repr_shows_what_is_short_and_the_size_of_the_rest():
    part = batched({"a": np.zeros(2)}, 1)
    meta = {
        "vocab": 3,
        "mean": 0.5,
        "unit": "debye",
        "told": "x" * 41,
        "vectors": None,
        "words": ["word"] * 18_280,
        "table": np.zeros((18_280, 50)),
        "ids": {"a": 1},
    }
    facts = "vocab 3; mean 0.5; unit debye; vectors None; words of 18,280; table of 18,280 x 50; ids of 1"
    assert repr(Dataset("words", part, part, meta=meta)) == f"Dataset(words: train 2, valid 2; {facts})"


def test_reprs_say_what_is_inside():
    batches = batched({"pixels": np.zeros((1200, 4)), "label": np.zeros(1200)}, 100)
    dataset = Dataset("digits", batches, batches.take(150), meta={"classes": 10})
    assert repr(dataset) == "Dataset(digits: train 1,200, valid 150; classes 10)"
    assert repr(batches) == "Instances(1,200 examples in 12 batches: pixels (width 4), label (width 1))"
    assert repr(batches["label"]) == "Column('label': 12 instances, 1,200 rows, width 1)"

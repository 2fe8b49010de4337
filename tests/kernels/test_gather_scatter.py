import numpy as np
import pytest

from ampnet.kernels.gather_scatter import add_rows, gather, pick_rows, scatter_add
from tests import naive


@pytest.mark.parametrize("rows, width", [(0, 3), (1, 1), (5, 8), (40, 33), (3, 0), (9, 7)])
def test_gather_and_its_backward(rows, width):
    rng = np.random.default_rng(rows)
    table, ids = rng.normal(size=(6, width)).astype(np.float32), rng.integers(0, 6, rows)
    out = np.zeros((rows, width), np.float32)
    gather(table, ids.astype(np.float32), out)
    assert np.array_equal(out, naive.gather(table, ids))
    gradient, d = np.ones((6, width), np.float32), rng.normal(size=(rows, width)).astype(np.float32)
    scatter_add(gradient, ids.astype(np.float32), d)
    expected = naive.scatter_add(np.ones((6, width)), ids, d)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


def test_scatter_is_the_transpose_of_gather():
    """<gather(T), D> = <T, scatter(D)> for any T and D, so one is the other's backward."""
    rng = np.random.default_rng(3)
    table, d, ids = rng.normal(size=(6, 8)), rng.normal(size=(20, 8)), rng.integers(0, 6, 20).astype(np.float32)
    table, d = table.astype(np.float32), d.astype(np.float32)
    out, gradient = np.empty((20, 8), np.float32), np.zeros((6, 8), np.float32)
    gather(table, ids, out)
    scatter_add(gradient, ids, d)
    assert (out.astype(float) * d).sum() == pytest.approx((table.astype(float) * gradient).sum(), rel=1e-5)


EDGES = [(0, 3), (1, 1), (2, 3), (7, 8), (40, 33), (3, 0), (9, 150)]


@pytest.mark.parametrize("edges, width", EDGES)
def test_pick_rows_equals_the_twin(edges, width):
    rng = np.random.default_rng(edges)
    x, index = rng.normal(size=(6, width)).astype(np.float32), rng.integers(0, 6, edges)
    before, out = x.copy(), np.full((edges, width), 7, np.float32)
    pick_rows(x, index, out)
    assert np.array_equal(out, naive.gather(before, index))
    assert np.array_equal(x, before)


@pytest.mark.parametrize("edges, width", EDGES)
def test_add_rows_equals_the_twin_and_adds_to_what_is_there(edges, width):
    rng = np.random.default_rng(edges)
    x, out = rng.normal(size=(5, width)).astype(np.float32), rng.normal(size=(4, width)).astype(np.float32)
    source, target = rng.integers(0, 5, edges), rng.integers(0, 4, edges)
    expected, before = naive.add_rows(out.astype(np.float64), x.astype(np.float64), source, target), x.copy()
    add_rows(x, source, target, out)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
    assert np.array_equal(x, before)


def test_duplicates_are_picked_and_added_every_time():
    x, out = np.arange(6, dtype=np.float32).reshape(3, 2), np.empty((4, 2), np.float32)
    pick_rows(x, np.array([2, 0, 2, 2]), out)
    assert np.array_equal(out, [[4, 5], [0, 1], [4, 5], [4, 5]])
    total = np.full((2, 2), 100, np.float32)
    add_rows(x, np.array([1, 1, 1, 2, 0]), np.array([0, 0, 0, 0, 1]), total)
    assert np.array_equal(total, [[110, 114], [100, 101]])


def test_an_empty_index_picks_and_adds_nothing():
    none = np.zeros(0, np.int64)
    for rows in (0, 3):
        x, out = np.ones((rows, 4), np.float32), np.full((2, 4), 7, np.float32)
        add_rows(x, none, none, out)
        pick_rows(x, none, out[:0])
        assert (out == 7).all() and (x == 1).all()


def test_pick_rows_and_add_rows_backward_equal_finite_differences():
    """The backward of both is add_rows: along the index back, and along the edges turned round."""
    rng = np.random.default_rng(4)
    x, index, d = rng.normal(size=(4, 3)), np.array([1, 3, 1, 0, 1]), rng.normal(size=(5, 3)).astype(np.float32)
    expected = naive.finite_difference(lambda v: (naive.gather(v, index) * d).sum(), x.copy())
    gradient = np.zeros((4, 3), np.float32)
    add_rows(d, np.arange(5), index, gradient)
    np.testing.assert_allclose(gradient, expected, atol=1e-6)
    source, target = np.array([0, 2, 2, 3, 0, 0]), np.array([1, 1, 0, 4, 1, 1])
    expected = naive.finite_difference(lambda v: (naive.add_rows(np.zeros((5, 3)), v, source, target) * d).sum(), x.copy())
    gradient = np.zeros((4, 3), np.float32)
    add_rows(d, target, source, gradient)
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_picked_and_added_and_spreads_no_further(value):
    for at in range(9):
        x, out, total = np.ones((3, 9), np.float32), np.zeros((2, 9), np.float32), np.zeros((3, 9), np.float32)
        x[1, at] = value
        pick_rows(x, np.array([1, 2]), out)
        assert not np.isfinite(out[0, at]) and (~np.isfinite(out)).sum() == 1
        add_rows(x, np.array([0, 1, 2]), np.array([2, 2, 0]), total)
        assert not np.isfinite(total[2, at]) and (~np.isfinite(total)).sum() == 1

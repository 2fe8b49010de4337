import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampnet.kernels.reductions import add_into, gated_sum, gated_sum_backward, sum_rows
from tests import naive

SHAPES = [(rows, width) for rows in (0, 1, 2, 7) for width in (1, 3, 8, 150)] + [(300, 9), (3, 0)]


def draw(rows, width, seed=0, size=1.0):
    """Gate, x and a gradient of their gated sum."""
    rng = np.random.default_rng(seed + 1000 * rows + width)
    gate, x = rng.normal(0, size, (2, rows, width)).astype(np.float32)
    return gate, x, rng.normal(size=width).astype(np.float32)


@pytest.mark.parametrize("size", [0, 1, 3, 8, 9, 150])
def test_add_into_adds_to_what_is_there(size):
    total, values = np.random.default_rng(size).normal(size=(2, size)).astype(np.float32)
    expected, before = total + values, values.copy()
    add_into(total, values)
    assert np.array_equal(total, expected) and np.array_equal(values, before)


@pytest.mark.parametrize("rows, width", SHAPES)
def test_sum_rows_equals_the_twin_whatever_was_there(rows, width):
    _, x, _ = draw(rows, width)
    before, out = x.copy(), np.full(width, np.nan, np.float32)
    sum_rows(x, out)
    np.testing.assert_allclose(out, x.astype(np.float64).sum(axis=0), rtol=1e-5, atol=1e-5)
    assert np.array_equal(x, before)


@pytest.mark.parametrize("rows, width", SHAPES)
def test_gated_sum_equals_the_twin_and_leaves_the_sigmoids(rows, width):
    gate, x, _ = draw(rows, width, size=2)
    g, before, out = gate.copy(), x.copy(), np.full(width, np.nan, np.float32)
    gated_sum(g, x, out)
    expected_g, expected = naive.gated_sum(gate.astype(np.float64), x.astype(np.float64))
    np.testing.assert_allclose(g, expected_g, rtol=1e-6)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=2e-5)
    assert np.array_equal(x, before)


@pytest.mark.parametrize("rows, width", SHAPES)
def test_the_gradients_of_gated_sum_equal_the_twin_and_take_the_inputs_place(rows, width):
    gate, x, d_out = draw(rows, width)
    g, dx, before = gate.copy(), x.copy(), d_out.copy()
    gated_sum(g, dx, np.empty(width, np.float32))
    gated_sum_backward(g, dx, d_out)
    expected = naive.gated_sum_backward(gate.astype(np.float64), x.astype(np.float64), d_out.astype(np.float64))
    np.testing.assert_allclose(g, expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dx, expected[1], rtol=1e-5, atol=1e-6)
    assert np.array_equal(d_out, before)


@pytest.mark.parametrize("rows, width", [(1, 1), (2, 3), (7, 8), (1, 150)])
def test_the_gradients_of_gated_sum_equal_finite_differences(rows, width):
    gate, x, d_out = draw(rows, width, seed=1)
    g, dx = gate.copy(), x.copy()
    gated_sum(g, dx, np.empty(width, np.float32))
    gated_sum_backward(g, dx, d_out)
    gate, x = gate.astype(np.float64), x.astype(np.float64)
    expected = naive.finite_difference(lambda v: (naive.gated_sum(v, x)[1] * d_out).sum(), gate.copy())
    np.testing.assert_allclose(g, expected, rtol=1e-5, atol=2e-6)
    expected = naive.finite_difference(lambda v: (naive.gated_sum(gate, v)[1] * d_out).sum(), x.copy())
    np.testing.assert_allclose(dx, expected, rtol=1e-5, atol=2e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 20), st.integers(0, 40), st.floats(0.01, 20), st.integers(0, 2**32 - 1))
def test_sums_equal_the_twin_for_any_shape(rows, width, size, seed):
    gate, x, d_out = draw(rows, width, seed, size)
    plain, gated, g, dx = np.empty(width, np.float32), np.empty(width, np.float32), gate.copy(), x.copy()
    sum_rows(x, plain)
    gated_sum(g, dx, gated)
    gated_sum_backward(g, dx, d_out)
    gate, x, d_out = gate.astype(np.float64), x.astype(np.float64), d_out.astype(np.float64)
    expected = x.sum(axis=0), naive.gated_sum(gate, x)[1], *naive.gated_sum_backward(gate, x, d_out)
    for mine, theirs in zip((plain, gated, g, dx), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5 * max(1.0, size))


@pytest.mark.parametrize("width", [1, 3, 9, 33])
def test_a_nan_shows_in_its_column_and_nowhere_else(width):
    for at in range(width):
        total, values = np.zeros(width, np.float32), np.zeros(width, np.float32)
        values[at] = np.nan
        add_into(total, values)
        assert np.isnan(total[at]) and np.isnan(total).sum() == 1
        add_into(total, np.ones(width, np.float32))
        assert np.isnan(total[at]) and np.isnan(total).sum() == 1
        for row in range(3):
            bad = np.zeros((3, width), np.float32)
            bad[row, at] = np.nan
            good, out = np.zeros((3, width), np.float32), np.empty(width, np.float32)
            sum_rows(bad, out)
            assert np.isnan(out[at]) and np.isnan(out).sum() == 1
            for gate, x in ((bad, good), (good, bad)):
                gate, x = gate.copy(), x.copy()
                gated_sum(gate, x, out)
                assert np.isnan(out[at]) and np.isnan(out).sum() == 1
                assert np.isnan(gate).sum() + np.isnan(x).sum() == 1


@pytest.mark.parametrize("width", [1, 3, 9])
def test_a_nan_shows_in_the_gradients_that_depend_on_it_and_nowhere_else(width):
    for at in range(width):
        for which in range(3):
            gate, x, d_out = np.full((2, width), 0.5, np.float32), np.ones((2, width), np.float32), np.ones(width, np.float32)
            if which == 2:
                d_out[at] = np.nan
            else:
                (gate, x)[which][1, at] = np.nan
            gated_sum_backward(gate, x, d_out)
            assert np.isnan(gate[1, at]) and np.isnan(gate).sum() == (2 if which == 2 else 1)
            assert np.isnan(x[1, at]) == (which != 1) and np.isnan(x).sum() == (1, 0, 2)[which]


def test_infinities_that_cancel_show():
    x, out = np.array([[np.inf, np.inf], [-np.inf, 1]], np.float32), np.empty(2, np.float32)
    sum_rows(x, out)
    assert np.isnan(out[0]) and out[1] == np.inf


def test_saturated_gates_take_all_or_nothing():
    gate = np.array([[1e4, -1e4], [1e4, 1e4]], np.float32)
    x, out = np.array([[1.5, 3], [2, 5]], np.float32), np.empty(2, np.float32)
    gated_sum(gate, x, out)
    assert np.array_equal(out, [3.5, 5]) and np.array_equal(gate, [[1, 0], [1, 1]])

"""Products with a transpose straight from the matrix, against NumPy in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampnet.kernels.dots import product_turned
from tests.naive import is_product

from .test_gemm import addresses, random

WIDTHS = [1, 2, 7, 8, 9, 15, 16, 17, 33, 130]


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4, 5, 6, 7, 11, 40])
def test_products_equal_numpys_for_every_shape(rows):
    rng = np.random.default_rng(rows)
    for inner in WIDTHS:
        for outer in WIDTHS:
            d, w = random(rng, rows, outer), random(rng, inner, outer)
            for accumulate in (0, 1):
                dx = random(rng, rows, inner)
                before = accumulate * dx
                product_turned(addresses(d), w, addresses(dx), rows, accumulate)
                assert is_product(dx, d, w.T, before)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.integers(1, 70), st.integers(1, 70), st.integers(0, 1), st.integers(0, 2**31))
def test_rows_may_lie_anywhere_and_nothing_beyond_them_is_touched(rows, inner, outer, accumulate, seed):
    rng = np.random.default_rng(seed)
    padding = 5
    d, dx, w = random(rng, rows, outer + padding), random(rng, rows, inner + padding), random(rng, inner, outer)
    d[:, outer:] = np.nan
    order, before = rng.permutation(rows), dx.copy()
    product_turned(addresses(d)[order], w, addresses(dx)[order], rows, accumulate)
    assert np.array_equal(dx[:, inner:], before[:, inner:])
    assert is_product(dx[:, :inner], d[:, :outer], w.T, accumulate * before[:, :inner])


@pytest.mark.parametrize("inner, outer", [(5, 3), (17, 33), (100, 300), (31, 640)])
def test_a_row_does_not_depend_on_the_rows_beside_it(inner, outer):
    rng = np.random.default_rng(0)
    d, w = random(rng, 13, outer), random(rng, inner, outer)
    results = []
    for rows in range(1, 14):
        dx = np.zeros((rows, inner), np.float32)
        product_turned(addresses(d), w, addresses(dx), rows, 0)
        results.append(dx)
    for dx in results:
        assert np.array_equal(dx, results[-1][:len(dx)]), len(dx)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_shows(value):
    rng = np.random.default_rng(0)
    d, w = random(rng, 3, 20), random(rng, 9, 20)
    w[4, 17] = value
    dx = np.zeros((3, 9), np.float32)
    product_turned(addresses(d), w, addresses(dx), 3, 0)
    assert np.array_equal(np.isfinite(dx), np.isfinite(d @ w.T))

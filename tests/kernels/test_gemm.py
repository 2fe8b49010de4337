import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampnet.kernels import gemm
from ampnet.kernels.outer import (
    D_COLUMNS,
    are_finite,
    d_size,
    matmul_transposed,
    outer_block,
    outer_product,
    put_d,
    put_x,
    x_size,
)
from ampnet.kernels.outer import ROWS as ROOM
from ampnet.kernels.panels import pack, panels_size, product_packing, product_panels
from tests.naive import distance, is_product

ROWS = [0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 40, 100]
WIDTHS = [1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 33, 130]


def random(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def addresses(matrix):
    """A table of the addresses of a matrix's rows."""
    return np.array([row.ctypes.data for row in matrix], np.int64)


@pytest.mark.parametrize("rows", ROWS)
def test_products_equal_numpys_for_every_shape(rows):
    rng = np.random.default_rng(rows)
    for inner in WIDTHS:
        for outer in WIDTHS:
            x, w, d = random(rng, rows, inner), random(rng, inner, outer), random(rng, rows, outer)
            for accumulate in (0, 1):
                y = random(rng, rows, outer)
                expected = accumulate * y.astype(float) + x.astype(float) @ w
                gemm.matmul(x, w, y, accumulate)
                assert rows == 0 or distance(y, expected) < 1e-5
            g = random(rng, inner, outer)
            expected = g + x.T.astype(float) @ d
            matmul_transposed(x, d, g)
            assert distance(g, expected) < 1e-5


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 60), st.integers(1, 70), st.integers(1, 70), st.integers(0, 2**31))
def test_rows_may_lie_anywhere_and_nothing_beyond_them_is_touched(rows, inner, outer, seed):
    rng = np.random.default_rng(seed)
    padding = 5
    x, y = random(rng, rows, inner + padding), random(rng, rows, outer + padding)
    w = random(rng, inner, outer)
    order = rng.permutation(rows)
    x_rows = addresses(x)[order]
    y_rows = addresses(y)[order]
    before = y.copy()
    gemm.product(x_rows, w, y_rows, rows, 0)
    assert np.array_equal(y[:, outer:], before[:, outer:])
    assert is_product(y[:, :outer], x[:, :inner], w)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, ROOM), st.integers(1, 70), st.integers(1, 70), st.integers(0, 2**31))
def test_weight_gradients_of_rows_that_were_put_aside(rows, inner, outer, seed):
    """In two goes and from anywhere; the whole, and a block of it into memory of its own."""
    rng = np.random.default_rng(seed)
    x, d = random(rng, rows, inner + 3), random(rng, rows, outer + 3)
    x_panels, d_panels = np.zeros(x_size(inner), np.float32), np.zeros(d_size(outer), np.float32)
    order, first = rng.permutation(rows), int(rng.integers(rows + 1))
    for put, matrix, width, panels in ((put_x, x, inner, x_panels), (put_d, d, outer, d_panels)):
        table = addresses(matrix)[order]
        put(table, first, width, panels.ctypes.data, 0)
        put(table[first:], rows - first, width, panels.ctypes.data, first)
    g = random(rng, inner, outer)
    before = g.copy()
    outer_product(x_panels.ctypes.data, d_panels.ctypes.data, rows, g)
    assert is_product(g, x[:, :inner].T, d[:, :outer], before)
    top, left = 6 * int(rng.integers((inner + 5) // 6)), D_COLUMNS * int(rng.integers((outer + D_COLUMNS - 1) // D_COLUMNS))
    bottom, right = int(rng.integers(top + 1, inner + 1)), int(rng.integers(left + 1, outer + 1))
    block = np.full((bottom - top, right - left + 1), 7, np.float32)
    outer_block(x_panels.ctypes.data, d_panels.ctypes.data, rows, top, bottom, left, right,
                block.ctypes.data, block.shape[1], 0, g.ctypes.data, outer)
    assert is_product(block[:, :-1], x[:, top:bottom].T, d[:, left:right]) and (block[:, -1] == 7).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite_rows_are_seen_in_panels_as_far_as_they_are_in_use(value):
    rows, inner, outer = 5, 13, 35
    rng = np.random.default_rng(0)
    for matrix in (0, 1):
        for row in range(rows + 1):
            for column in (0, 5, 12):
                x, d = random(rng, rows + 1, inner), random(rng, rows + 1, outer)
                (x, d)[matrix][row, column] = value
                panels = np.zeros(x_size(inner), np.float32), np.zeros(d_size(outer), np.float32)
                for put, rows_of, to in ((put_x, x, panels[0]), (put_d, d, panels[1])):
                    table = addresses(rows_of)
                    put(table, rows + 1, rows_of.shape[1], to.ctypes.data, 0)
                assert are_finite(*panels, rows) == (row == rows)


@pytest.mark.parametrize("rows, inner, outer", [(1, 401, 331), (2, 320, 400), (3, 401, 331), (4, 130, 1007), (7, 330, 17),
                                                (36, 320, 400), (37, 401, 331), (100, 784, 784), (101, 130, 1007)])
def test_products_from_panels_have_the_bits_of_others(rows, inner, outer):
    rng = np.random.default_rng(0)
    x, w = random(rng, rows, inner), random(rng, inner, outer)
    wide = random(rng, panels_size(inner, outer))
    pack(w, wide)
    before, x_rows = random(rng, rows, outer + 1), addresses(x)
    ways = [(product_panels, wide, inner, outer)]
    if rows >= 3:
        ways.append((product_packing, w))
    for accumulate in (1, 0):
        expected = before[:, :outer].copy()
        gemm.matmul(x, w, expected, accumulate)
        assert distance(expected, accumulate * before[:, :outer].astype(float) + x.astype(float) @ w) < 1e-5
        for function, *weights in ways:
            y = before.copy()
            function(x_rows, *weights, addresses(y), rows, accumulate)
            assert np.array_equal(y[:, :outer], expected) and np.array_equal(y[:, outer], before[:, outer])


@pytest.mark.parametrize("inner, outer", [(10, 30), (100, 100), (130, 17), (700, 33), (330, 400)])   # the last is a far one
def test_a_row_of_a_product_does_not_depend_on_the_rows_beside_it(inner, outer):
    """So it makes no difference to an instance's forward with which others it was coalesced."""
    rng = np.random.default_rng(0)
    x, w = random(rng, 100, inner), random(rng, inner, outer)
    results = {}
    for rows in (100, *range(1, 14), 37):
        y = np.zeros((rows, outer), np.float32)
        gemm.matmul(x[:rows].copy(), w, y, 0)
        results[rows] = y
    for rows, y in results.items():
        assert np.array_equal(y, results[100][:rows]), rows


@pytest.mark.parametrize("rows", WIDTHS)
@pytest.mark.parametrize("cols", WIDTHS)
def test_transpose(rows, cols):
    source = random(np.random.default_rng(0), rows, cols)
    target = np.zeros((cols, rows), np.float32)
    gemm.transpose(source, target)
    assert np.array_equal(target, source.T)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite_values_reach_the_result(value):
    for inner in (1, 9, 40):
        for at in range(inner):
            x, w = np.ones((7, inner), np.float32), np.ones((inner, 9), np.float32)
            x[3, at] = value
            y = np.zeros((7, 9), np.float32)
            gemm.matmul(x, w, y, 0)
            assert not np.isfinite(y[3]).any() and np.isfinite(np.delete(y, 3, axis=0)).all()

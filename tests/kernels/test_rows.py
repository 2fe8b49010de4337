"""Rows copied, added and summed, to the bit and to the last element."""

import numpy as np
import pytest
from numba import njit

from ampnet.kernels import rows as kernels
from tests.naive import is_product

from .test_gemm import addresses, random

WIDTHS = [0, 1, 2, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 130]


@njit
def copy_row(source, target, width):
    kernels.copy_row(source.ctypes.data, target.ctypes.data, width)


@njit
def add_row(source, target, width):
    kernels.add_row(source.ctypes.data, target.ctypes.data, width)


@njit
def is_finite_row(source, width):
    return kernels.is_finite_row(source.ctypes.data, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_not_finite_is_seen_as_far_as_a_row_goes(width):
    values = np.full(width + 1, 3e38, np.float32)
    for at in range(width + 1):
        for value in (np.nan, np.inf, -np.inf):
            values[at] = value
            assert is_finite_row(values, width) == (at == width)
            values[at] = -3e38


@pytest.mark.parametrize("width", WIDTHS)
def test_a_row_is_copied_and_added(width):
    rng = np.random.default_rng(width)
    source, target = random(rng, 140), random(rng, 140)
    source[width:] = np.nan
    before = target.copy()
    add_row(source, target, width)
    assert np.array_equal(target[:width], before[:width] + source[:width]) and np.array_equal(target[width:], before[width:])
    copy_row(source, target, width)
    assert np.array_equal(target[:width], source[:width]) and np.array_equal(target[width:], before[width:])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [0, 1, 2, 7, 54])
def test_rows_anywhere_are_summed(count, width):
    rng = np.random.default_rng(width)
    values, room = random(rng, count, width + 3), random(rng, width + 3)
    values[:, width:] = np.nan
    before = room.copy()
    kernels.sum_rows_at(addresses(values)[rng.permutation(count)], count, room[:width])
    assert is_product(room[:width], np.ones((1, count)), values[:, :width], before[:width])
    assert np.array_equal(room[width:], before[width:])

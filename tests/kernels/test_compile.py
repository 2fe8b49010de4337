"""Parts of compiled functions: compiled once, and an error where Python calls them."""

import numba
import pytest

from ampnet.kernels.compile import part


def test_a_part_is_compiled_once_for_all_constants():
    @part
    def twice(x):
        return 2 * x

    @numba.njit
    def whole(x):
        return twice(1) + twice(20) + twice(x)

    assert whole(300) == 642
    assert len(twice.signatures) == 1


def test_a_part_called_from_python_is_an_error_and_no_crash():
    @part
    def thrice(x):
        return 3 * x

    with pytest.raises(TypeError, match="thrice is a part of compiled functions"):
        thrice(1)
    assert thrice.py_func(2) == 6

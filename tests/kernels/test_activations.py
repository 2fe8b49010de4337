import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from ampnet.kernels.activations import CODES, activate, activate_backward, add_bias_activate, exp32
from ampnet.kernels.compile import exact_kernel, kernel
from tests.naive import ACTIVATIONS, finite_difference

ROOT = Path(__file__).parents[2]
COMPILE_CALLERS_FIRST = """
import numpy as np
from numba import njit
from ampnet.kernels.activations import TANH, activate, add_bias_activate, exp32
activate(TANH, np.zeros(3, np.float32))
add_bias_activate(TANH, np.zeros((1, 3), np.float32), np.zeros(3, np.float32))
exp = njit(lambda x: exp32(x))
assert abs(exp(np.float32(88.7)) / np.exp(np.float64(np.float32(88.7))) - 1) < 2e-7
"""

SIZES = [0, 1, 7, 8, 9, 33, 1000]


@njit
def exp_all(values):
    for i in range(len(values)):
        values[i] = exp32(values[i])


def ulps(got, expected):
    spacing = np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64)
    return np.max(np.abs(got.astype(np.float64) - expected) / spacing)


def test_exp_is_within_two_ulps_down_to_the_smallest_float():
    for x in (np.linspace(-104, 88.72, 400_001), np.geomspace(1e-40, 80, 2001), -np.geomspace(1e-40, 80, 2001)):
        x = x.astype(np.float32)
        y = x.copy()
        exp_all(y)
        assert ulps(y, np.exp(x.astype(np.float64))) <= 2


def test_exp_overflows_to_infinity_and_underflows_to_zero():
    y = np.array([88.73, 89, 1e30, np.inf, -105, -1e30, -np.inf, np.nan], np.float32)
    exp_all(y)
    np.testing.assert_array_equal(y, [np.inf] * 4 + [0] * 3 + [np.nan])


@pytest.mark.parametrize("name, lowest", [("tanh", -100), ("sigmoid", -87)])
def test_activations_are_within_four_ulps(name, lowest):
    for x in (np.linspace(lowest, 100, 400_001), np.linspace(-1, 1, 100_001), np.geomspace(1e-40, 50, 2001),
              -np.geomspace(1e-40, 50, 2001)):
        x = x.astype(np.float32)
        y = x.copy()
        activate(CODES[name], y)
        assert ulps(y, ACTIVATIONS[name][0](x.astype(np.float64))) <= 4


def test_exp_stays_exact_when_its_callers_are_compiled_first(tmp_path):
    """Numba hands fast-math down to callees and caches the result: what is compiled first decided what exp returned."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", COMPILE_CALLERS_FIRST], cwd=ROOT, env=environment).returncode == 0


def test_an_exact_kernel_stays_exact_under_a_fast_math_caller():
    @exact_kernel
    def rounding_error(a, b):
        return (a + b) - a

    @kernel
    def caller(a, b):
        return rounding_error(a, b)

    assert caller(np.float32(1e8), np.float32(1)) == 0


@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize("size", SIZES)
def test_forward_and_backward_equal_the_twin(name, size):
    rng = np.random.default_rng(size)
    x, d = rng.normal(0, 2, (2, size)).astype(np.float32)
    y, gradient = x.copy(), d.copy()
    activate(CODES[name], y)
    activate_backward(CODES[name], y, gradient)
    function, derivative = ACTIVATIONS[name]
    expected = function(x.astype(np.float64))
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(gradient, d * derivative(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CODES)
def test_derivative_equals_finite_differences_of_the_twin(name):
    x = np.array([-2.0, -0.7, -0.1, 0.2, 0.9, 3.0])
    function, derivative = ACTIVATIONS[name]
    expected = finite_difference(lambda v: function(v).sum(), x.copy())
    gradient = np.ones(len(x), np.float32)
    y = x.astype(np.float32)
    activate(CODES[name], y)
    activate_backward(CODES[name], y, gradient)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(derivative(function(x)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize("shape", [(0, 4), (1, 1), (3, 7), (5, 8), (2, 33)])
def test_bias_and_activation_in_one_pass(name, shape):
    rng = np.random.default_rng(1)
    x, bias = rng.normal(size=shape).astype(np.float32), rng.normal(size=shape[1]).astype(np.float32)
    y = x.copy()
    add_bias_activate(CODES[name], y, bias)
    expected = ACTIVATIONS[name][0](x.astype(np.float64) + bias)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(CODES)), st.integers(0, 5), st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_bias_and_activation_equal_the_twin_for_any_shape(name, rows, cols, seed):
    rng = np.random.default_rng(seed)
    x, bias = rng.normal(0, 3, (rows, cols)).astype(np.float32), rng.normal(size=cols).astype(np.float32)
    y = x.copy()
    add_bias_activate(CODES[name], y, bias)
    np.testing.assert_allclose(y, ACTIVATIONS[name][0](x.astype(np.float64) + bias), rtol=1e-5, atol=1e-6)


def test_a_nan_in_values_or_bias_stays():
    for name in CODES:
        for at in range(9):
            y, bias = np.zeros((2, 9), np.float32), np.zeros(9, np.float32)
            y[1, at] = np.nan
            add_bias_activate(CODES[name], y, bias)
            assert np.isnan(y[1, at]) and np.isnan(y).sum() == 1
            y, bias[at] = np.zeros((2, 9), np.float32), np.nan
            add_bias_activate(CODES[name], y, bias)
            assert np.isnan(y[:, at]).all() and np.isnan(y).sum() == 2


@pytest.mark.parametrize("name", ["relu", "tanh", "sigmoid"])
def test_extremes_and_nan(name):
    x = np.array([np.inf, -np.inf, 1e4, -1e4, 0.0], np.float32)
    y = x.copy()
    activate(CODES[name], y)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(y, ACTIVATIONS[name][0](x.astype(np.float64)), rtol=1e-6, atol=1e-37)
    for size in SIZES[1:6]:
        for at in range(size):
            values = np.zeros(size, np.float32)
            values[at] = np.nan
            activate(CODES[name], values)
            assert np.isnan(values[at]) and np.isnan(values).sum() == 1

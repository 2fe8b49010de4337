import numpy as np
import pytest
from numba import njit

from ampnet.kernels.activations import CODES, activate, activate_backward, add_bias_activate, exp32
from tests.naive import ACTIVATIONS, finite_difference

SIZES = [0, 1, 7, 8, 9, 33, 1000]


@njit
def exp_all(values):
    for i in range(len(values)):
        values[i] = exp32(values[i])


def ulps(got, expected):
    spacing = np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64)
    return np.max(np.abs(got.astype(np.float64) - expected) / spacing)


def test_exp_is_within_two_ulps_over_its_whole_range():
    x = np.linspace(-87.3, 88.7, 400_001).astype(np.float32)
    y = x.copy()
    exp_all(y)
    assert ulps(y, np.exp(x.astype(np.float64))) <= 2


@pytest.mark.parametrize("name, limit", [("tanh", 4), ("sigmoid", 4)])
def test_activations_are_within_a_few_ulps(name, limit):
    for x in (np.linspace(-20, 20, 200_001), np.geomspace(1e-30, 1, 2001)):
        x = x.astype(np.float32)
        y = x.copy()
        activate(CODES[name], y)
        assert ulps(y, ACTIVATIONS[name][0](x.astype(np.float64))) <= limit


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

"""ReLU with a bit an element: against NumPy, at widths that are whole vectors and that are not."""

import numpy as np
import pytest

from ampnet.kernels.relu import bias_relu, bits_width, relu_backward

WIDTHS = [1, 4, 7, 8, 15, 16, 17, 31, 32, 33, 100, 128]


def made(rows, cols):
    """(y and bias, some sums 0, NaN or infinite; the outputs by NumPy; garbage to write bits over)."""
    rng = np.random.default_rng(cols)
    y, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, cols), cols))
    y[0] = -bias
    y[1, 0], y[2, -1] = np.nan, np.inf
    sums = y + bias
    bits = rng.integers(0, 256, (rows, 4 * bits_width(cols)), dtype=np.uint8)
    return y, bias, np.where(sums < 0, np.float32(0), sums), bits


@pytest.mark.parametrize("cols", WIDTHS)
def test_bias_relu_gives_outputs_and_their_bits(cols):
    y, bias, expected, bits = made(5, cols)
    bias_relu(y, bias, bits)
    np.testing.assert_array_equal(y, expected)
    assert np.isnan(y[1, 0]) and np.isinf(y[2, -1])
    np.testing.assert_array_equal(np.unpackbits(bits, axis=1, count=cols, bitorder="little"), expected > 0)


@pytest.mark.parametrize("cols", WIDTHS)
def test_relu_backward_drops_what_was_not_above_zero(cols):
    y, bias, expected, bits = made(5, cols)
    bias_relu(y, bias, bits)
    gradient = np.random.default_rng(1).standard_normal(y.shape).astype(np.float32)
    wanted = np.where(expected > 0, gradient, np.float32(0))
    relu_backward(bits, gradient)
    np.testing.assert_array_equal(gradient, wanted)

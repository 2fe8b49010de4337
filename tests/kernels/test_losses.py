import numpy as np
import pytest

from ampnet.kernels.losses import softmax_cross_entropy, squared_error
from tests import naive

SHAPES = [(1, 2), (1, 10), (3, 7), (100, 10), (5, 33)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("with_gradient", [True, False])
def test_cross_entropy_equals_the_twin(shape, with_gradient):
    rng = np.random.default_rng(shape[1])
    x = rng.normal(0, 5, shape).astype(np.float32)
    labels = rng.integers(0, shape[1], shape[0])
    gradient = np.full(shape, 7, np.float32)
    loss, correct = softmax_cross_entropy(x, labels.astype(np.float32), gradient, 0.25, with_gradient)
    expected = naive.softmax_cross_entropy(x.astype(np.float64), labels)
    assert loss == pytest.approx(expected[0], rel=1e-6)
    assert correct == expected[2]
    np.testing.assert_allclose(gradient, expected[1] * 0.25 if with_gradient else 7, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
def test_squared_error_equals_the_twin(shape):
    rng = np.random.default_rng(shape[1])
    x, t = rng.normal(0, 5, (2, *shape)).astype(np.float32)
    expected = naive.squared_error(x.astype(np.float64), t)
    loss, error = squared_error(x, t, x, 0.5, True)
    assert loss == pytest.approx(expected[0], rel=1e-6)
    assert error == pytest.approx(expected[2], rel=1e-6)
    np.testing.assert_allclose(x, expected[1] * 0.5, rtol=1e-5)


def test_gradients_equal_finite_differences():
    rng = np.random.default_rng(0)
    x, labels = rng.normal(0, 1, (4, 5)), np.array([0, 4, 2, 2])
    expected = naive.finite_difference(lambda v: naive.softmax_cross_entropy(v, labels)[0], x.copy())
    gradient = x.astype(np.float32)
    softmax_cross_entropy(gradient, labels.astype(np.float32), gradient, 1.0, True)
    np.testing.assert_allclose(gradient, expected, atol=1e-6)
    target = rng.normal(0, 1, (4, 5))
    expected = naive.finite_difference(lambda v: naive.squared_error(v, target)[0], x.copy())
    gradient = x.astype(np.float32)
    squared_error(gradient, target.astype(np.float32), gradient, 1.0, True)
    np.testing.assert_allclose(gradient, expected, atol=1e-5)


def test_huge_logits_do_not_overflow_and_the_first_maximum_wins():
    x = np.array([[1e4, 0, -1e4], [5, 5, 0]], np.float32)
    loss, correct = softmax_cross_entropy(x, np.array([0, 1], np.float32), x.copy(), 1.0, True)
    assert loss == pytest.approx(np.log(2 + np.exp(-5.0)))
    assert correct == 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_shows_in_the_loss(value):
    for at in np.ndindex(3, 5):
        x, t = np.zeros((3, 5), np.float32), np.zeros((3, 5), np.float32)
        x[at] = value
        assert not np.isfinite(squared_error(x.copy(), t, x.copy(), 1.0, True)[0])
        if value == -np.inf and at[1] != 0:
            continue   # a class of probability 0 that is not the label is no fault
        assert not np.isfinite(softmax_cross_entropy(x, np.zeros(3, np.float32), x.copy(), 1.0, True)[0])

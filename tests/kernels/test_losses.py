import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampnet.kernels.losses import softmax_cross_entropy, squared_error
from tests import naive

SHAPES = [(0, 3), (1, 1), (1, 2), (1, 10), (3, 7), (7, 8), (8, 9), (100, 10), (5, 33)]


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


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9), st.integers(1, 40), st.floats(0.01, 100), st.integers(0, 2**32 - 1))
def test_cross_entropy_equals_the_twin_for_any_shape_in_place(rows, classes, size, seed):
    rng = np.random.default_rng(seed)
    x, labels = rng.normal(0, size, (rows, classes)).astype(np.float32), rng.integers(0, classes, rows)
    expected = naive.softmax_cross_entropy(x.astype(np.float64), labels)
    loss, correct = softmax_cross_entropy(x, labels.astype(np.float32), x, 1.0, True)
    assert loss == pytest.approx(expected[0], rel=1e-6, abs=1e-6)
    assert correct == expected[2]
    np.testing.assert_allclose(x, expected[1], rtol=1e-5, atol=1e-6)


def test_squared_error_without_gradient_leaves_the_array_alone():
    p, t, gradient = np.ones((3, 9), np.float32), np.zeros((3, 9), np.float32), np.full((3, 9), 7, np.float32)
    assert squared_error(p, t, gradient, 1.0, False) == (13.5, 27.0)
    assert (gradient == 7).all()


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
        for gradient in (True, False):
            assert not np.isfinite(squared_error(x.copy(), t, x.copy(), 1.0, gradient)[0])
            assert not np.isfinite(squared_error(t.copy(), x.copy(), x.copy(), 1.0, gradient)[0])
            for label in (0, 4):
                labels = np.full(3, label, np.float32)
                assert not np.isfinite(softmax_cross_entropy(x, labels, x.copy(), 1.0, gradient)[0])

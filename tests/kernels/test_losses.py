import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampnet.kernels.losses import select_row, softmax_cross_entropy, squared_error
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


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9, 150])
@pytest.mark.parametrize("with_gradient", [True, False])
def test_select_row_equals_the_twin(rows, with_gradient):
    rng = np.random.default_rng(rows)
    for answer in {0, rows // 2, rows - 1}:
        x = rng.normal(0, 5, rows).astype(np.float32)
        before, gradient = x.copy(), np.full(rows, 7, np.float32)
        loss, best = select_row(x, answer, gradient, with_gradient)
        expected = naive.select_row(x.astype(np.float64), answer)
        assert loss == pytest.approx(expected[0], rel=1e-6, abs=1e-12)
        assert best == expected[2]
        assert np.array_equal(x, before)
        np.testing.assert_allclose(gradient, expected[1] if with_gradient else 7, rtol=1e-5, atol=1e-7)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.floats(0.01, 100), st.integers(0, 2**32 - 1))
def test_select_row_equals_the_twin_for_any_length_in_place(rows, size, seed):
    rng = np.random.default_rng(seed)
    x, answer = rng.normal(0, size, rows).astype(np.float32), int(rng.integers(0, rows))
    expected = naive.select_row(x.astype(np.float64), answer)
    loss, best = select_row(x, answer, x, True)
    assert loss == pytest.approx(expected[0], rel=1e-6, abs=1e-6)
    assert best == expected[2]
    np.testing.assert_allclose(x, expected[1], rtol=1e-5, atol=1e-6)


def test_select_row_is_cross_entropy_over_rows():
    x = np.random.default_rng(2).normal(0, 2, 9).astype(np.float32)
    one, other = x.copy(), x.copy().reshape(1, 9)
    loss, best = select_row(one, 4, one, True)
    assert loss == softmax_cross_entropy(other, np.full(1, 4, np.float32), other, 1.0, True)[0]
    assert best == x.argmax()
    assert np.array_equal(one, other[0])


def test_the_gradient_of_select_row_equals_finite_differences():
    x = np.random.default_rng(1).normal(0, 1, 6)
    for answer in range(6):
        expected = naive.finite_difference(lambda v, answer=answer: naive.select_row(v, answer)[0], x.copy())
        gradient = x.astype(np.float32)
        select_row(gradient, answer, gradient, True)
        np.testing.assert_allclose(gradient, expected, atol=1e-6)
        assert abs(gradient.sum()) < 1e-6


@pytest.mark.parametrize("scores, first", [([5, 5, 0], 0), ([0, 5, 5], 1), ([0, 0, 0], 0), ([-1, 3, 2, 3, 3], 1), ([4], 0)])
def test_the_first_of_equal_scores_is_selected(scores, first):
    x = np.array(scores, np.float32)
    for answer in range(len(x)):
        loss, best = select_row(x, answer, x.copy(), True)
        assert best == first
        assert loss == pytest.approx(naive.select_row(x.astype(np.float64), answer)[0])


def test_a_single_row_has_no_loss_and_huge_scores_do_not_overflow():
    gradient = np.full(1, 7, np.float32)
    assert select_row(np.full(1, 1e30, np.float32), 0, gradient, True) == (0.0, 0)
    assert gradient[0] == 0
    x = np.array([-1e38, 1e38, 0], np.float32)
    loss, best = select_row(x, 0, x, True)
    assert loss == pytest.approx(2e38) and best == 1
    assert np.array_equal(x, [-1, 1, 0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_shows_in_the_loss_of_select_row(value):
    for rows in (1, 2, 5):
        for at in range(rows):
            for answer in range(rows):
                for gradient in (True, False):
                    x = np.zeros(rows, np.float32)
                    x[at] = value
                    assert not np.isfinite(select_row(x, answer, x.copy(), gradient)[0])
            assert not np.isfinite(select_row(np.full(rows, value, np.float32), at, np.empty(rows, np.float32), True)[0])

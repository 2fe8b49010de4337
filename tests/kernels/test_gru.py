import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampnet.kernels.gru import gru_backward, gru_forward
from tests import naive

ROWS, HIDDEN = [0, 1, 2, 7], [1, 3, 8, 150]
SHAPES = [(rows, hidden) for rows in ROWS for hidden in HIDDEN]
BLOCKS = ["n", "r", "z", "m"]


def draw(rows, hidden, seed=0, size=1.0):
    """Pre-activations, the value before, and a gradient."""
    rng = np.random.default_rng(seed + 1000 * rows + hidden)
    x, h = rng.normal(0, size, (rows, 4 * hidden)), rng.normal(0, size, (rows, hidden))
    return x.astype(np.float32), h.astype(np.float32), rng.normal(size=(rows, hidden)).astype(np.float32)


def forward(x, h):
    """(gates, out) of the kernel."""
    gates, out = x.copy(), np.full(h.shape, np.nan, np.float32)
    gru_forward(gates, h, out)
    return gates, out


def backward(gates, h, d_out):
    """(gradient of the pre-activations, d_h)."""
    gates, d_h = gates.copy(), np.full(h.shape, np.nan, np.float32)
    gru_backward(gates, h, d_out, d_h)
    return gates, d_h


@pytest.mark.parametrize("rows, hidden", SHAPES)
def test_forward_equals_the_twin_and_leaves_the_candidate_and_the_gates(rows, hidden):
    x, h, _ = draw(rows, hidden, size=2)
    before = h.copy()
    gates, out = forward(x, h)
    expected_gates, expected = naive.gru(x.astype(np.float64), h.astype(np.float64))
    np.testing.assert_allclose(gates, expected_gates, rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=2e-6)
    assert np.array_equal(h, before)
    assert np.array_equal(gates[:, 3 * hidden:], x[:, 3 * hidden:])


@pytest.mark.parametrize("rows, hidden", SHAPES)
def test_backward_equals_the_twin_and_leaves_the_gradient_of_the_pre_activations(rows, hidden):
    x, h, d_out = draw(rows, hidden)
    before = h.copy(), d_out.copy()
    d_x, d_h = backward(forward(x, h)[0], h, d_out)
    expected = naive.gru_backward(x.astype(np.float64), h.astype(np.float64), d_out.astype(np.float64))
    np.testing.assert_allclose(d_x, expected[0], rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(d_h, expected[1], rtol=1e-5, atol=2e-6)
    assert np.array_equal(h, before[0]) and np.array_equal(d_out, before[1])


@pytest.mark.parametrize("rows, hidden", [(1, 1), (2, 1), (7, 3), (2, 8), (1, 150)])
def test_backward_equals_finite_differences_of_the_twin(rows, hidden):
    x, h, d_out = draw(rows, hidden, seed=1)
    d_x, d_h = backward(forward(x, h)[0], h, d_out)
    x, h = x.astype(np.float64), h.astype(np.float64)
    expected = naive.finite_difference(lambda v: (naive.gru(v, h)[1] * d_out).sum(), x.copy())
    np.testing.assert_allclose(d_x, expected, rtol=1e-5, atol=5e-6)
    expected = naive.finite_difference(lambda v: (naive.gru(x, v)[1] * d_out).sum(), h.copy())
    np.testing.assert_allclose(d_h, expected, rtol=1e-5, atol=5e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9), st.integers(1, 40), st.floats(0.01, 20), st.integers(0, 2**32 - 1))
def test_both_directions_equal_the_twin_for_any_shape(rows, hidden, size, seed):
    x, h, d_out = draw(rows, hidden, seed, size)
    gates, out = forward(x, h)
    got = (gates, out, *backward(gates, h, d_out))
    x, h, d_out = x.astype(np.float64), h.astype(np.float64), d_out.astype(np.float64)
    expected = (*naive.gru(x, h), *naive.gru_backward(x, h, d_out))
    for mine, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=5e-6 * max(1.0, size) ** 2)


@pytest.mark.parametrize("rows, hidden", SHAPES)
def test_an_unwanted_gradient_does_not_change_the_rest(rows, hidden):
    x, h, d_out = draw(rows, hidden, seed=2)
    gates, _ = forward(x, h)
    d_x, _ = backward(gates, h, d_out)
    for width in (0, hidden):
        again, none = gates.copy(), np.zeros((0, width), np.float32)
        gru_backward(again, h, d_out, none)
        assert np.array_equal(again, d_x)


def test_equals_the_cell_of_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    cell = torch.nn.GRUCell(4, 3)
    x, h, d_out = (rng.normal(size=(2, width)).astype(np.float32) for width in (4, 3, 3))
    w_x, w_h, b_x, b_h = (p.detach().numpy() for p in (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh))
    (xr, xz, xn), (hr, hz, hn) = np.split(x @ w_x.T + b_x, 3, axis=1), np.split(h @ w_h.T + b_h, 3, axis=1)
    gates, out = forward(np.hstack([xn, xr + hr, xz + hz, hn]), h)
    before = torch.tensor(h, requires_grad=True)
    after = cell(torch.tensor(x), before)
    np.testing.assert_allclose(out, after.detach().numpy(), atol=1e-6)
    (after * torch.tensor(d_out)).sum().backward()
    d_x, d_h = backward(gates, h, d_out)
    n, r, z, m = np.split(d_x, 4, axis=1)
    np.testing.assert_allclose(np.hstack([r, z, n]).sum(axis=0), cell.bias_ih.grad.numpy(), atol=1e-6)
    np.testing.assert_allclose(d_h + np.hstack([r, z, m]) @ w_h, before.grad.numpy(), atol=1e-6)


def test_a_saturated_gate_keeps_the_old_value_or_takes_the_candidate():
    h, high = np.array([[0.0, 1e-3, -2.5, 3]], np.float32), np.full((1, 4), 1e4, np.float32)
    n, m = np.array([[0.5, -1, 2, 0]], np.float32), np.array([[1, 2, -3, 4]], np.float32)
    _, out = forward(np.hstack([n, high, high, m]), h)
    np.testing.assert_allclose(out, h, rtol=1e-6, atol=2e-7)
    for reset, candidate in ((high, n + m), (-high, n)):
        _, out = forward(np.hstack([n, reset, -high, m]), h)
        np.testing.assert_allclose(out, np.tanh(candidate.astype(np.float64)), rtol=1e-6)


def nan_blocks(array, names, at):
    """Names of the blocks with a NaN; it must be in row 1 and column `at` of its block."""
    blocks = dict(zip(names, np.split(array, len(names), axis=1), strict=True))
    for block in blocks.values():
        assert np.isnan(block).sum() == np.isnan(block[1, at])
    return {name for name, block in blocks.items() if np.isnan(block).any()}


@pytest.mark.parametrize("hidden", [1, 3, 9])
def test_a_nan_shows_in_what_depends_on_it_and_nowhere_else(hidden):
    for at in range(hidden):
        for number, name in enumerate(BLOCKS):
            x, h, _ = draw(2, hidden)
            x[1, number * hidden + at] = np.nan
            gates, out = forward(x, h)
            assert nan_blocks(gates, BLOCKS, at) == ({"z"} if name == "z" else {"n", name})
            assert nan_blocks(out, ["h"], at) == {"h"}
        x, h, _ = draw(2, hidden)
        h[1, at] = np.nan
        gates, out = forward(x, h)
        assert np.isfinite(gates).all() and nan_blocks(out, ["h"], at) == {"h"}


@pytest.mark.parametrize("hidden", [1, 3, 9])
def test_a_nan_shows_in_the_gradients_that_depend_on_it_and_nowhere_else(hidden):
    expected = {"n": {*BLOCKS}, "r": {"r", "m"}, "z": {*BLOCKS, "h"}, "m": {"r"}}

    def affected(gates, h, d_out, at):
        d_x, d_h = backward(gates, h, d_out)
        return nan_blocks(d_x, BLOCKS, at) | nan_blocks(d_h, ["h"], at)

    for at in range(hidden):
        for number, name in enumerate(BLOCKS):
            x, h, d_out = draw(2, hidden)
            gates, _ = forward(x, h)
            gates[1, number * hidden + at] = np.nan
            assert affected(gates, h, d_out, at) == expected[name]
        x, h, d_out = draw(2, hidden)
        gates, _ = forward(x, h)
        bad_h, bad_d = h.copy(), d_out.copy()
        bad_h[1, at] = bad_d[1, at] = np.nan
        assert affected(gates, bad_h, d_out, at) == {"z"}
        assert affected(gates, h, bad_d, at) == {*BLOCKS, "h"}

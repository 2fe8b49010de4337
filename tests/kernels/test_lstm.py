import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampnet.kernels.lstm import lstm_backward, lstm_forward
from tests import naive

ROWS, HIDDEN, FORGETS = [0, 1, 2, 7], [1, 3, 8, 150], [0, 1, 2]
SHAPES = [(rows, hidden) for rows in ROWS for hidden in HIDDEN]


def draw(rows, hidden, forgets, seed=0, size=1.0):
    """Pre-activations, the values that forget gates belong to, and a gradient."""
    rng = np.random.default_rng(seed + 1000 * rows + 10 * hidden + forgets)
    x = rng.normal(0, size, (rows, (3 + forgets) * hidden)).astype(np.float32)
    children = [rng.normal(0, size, (rows, 2 * hidden)).astype(np.float32) for _ in range(forgets)]
    return x, children, rng.normal(size=(rows, 2 * hidden)).astype(np.float32)


def both(children, rows, width):
    """a and b; NaN in place of those that no forget gate belongs to."""
    return [*children, *(np.full((rows, width), np.nan, np.float32) for _ in range(2 - len(children)))]


def forward(x, children):
    """(gates, out) of the kernel, from memory that holds NaN."""
    rows, hidden = x.shape[0], x.shape[1] // (3 + len(children))
    gates, out = np.full((rows, x.shape[1] + hidden), np.nan, np.float32), np.full((rows, 2 * hidden), np.nan, np.float32)
    gates[:, :x.shape[1]] = x
    lstm_forward(gates, len(children), *both(children, rows, 2 * hidden), out)
    return gates, out


def backward(gates, children, d_out, wanted=(True, True)):
    """(gradient of the pre-activations, d_a, d_b); d_a and d_b held 7 before, and have no rows where not wanted."""
    gates, (rows, width) = gates.copy(), d_out.shape
    d_children = [np.full((rows, width) if w else (0, 0), 7, np.float32) for w in wanted]
    lstm_backward(gates, len(children), *both(children, rows, width), d_out, *d_children)
    return gates[:, :(3 + len(children)) * width // 2], *d_children


def doubles(children):
    return [child.astype(np.float64) for child in children]


@pytest.mark.parametrize("rows, hidden", SHAPES)
@pytest.mark.parametrize("forgets", FORGETS)
def test_forward_equals_the_twin_and_leaves_the_gates_values(rows, hidden, forgets):
    x, children, _ = draw(rows, hidden, forgets, size=2)
    before = [child.copy() for child in children]
    gates, out = forward(x, children)
    expected_gates, expected = naive.lstm(x.astype(np.float64), doubles(children))
    assert gates.shape == expected_gates.shape == (rows, (4 + forgets) * hidden)
    np.testing.assert_allclose(gates, expected_gates, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
    assert all(map(np.array_equal, children, before))


@pytest.mark.parametrize("rows, hidden", SHAPES)
@pytest.mark.parametrize("forgets", FORGETS)
def test_backward_equals_the_twin_and_leaves_the_gradient_of_the_pre_activations(rows, hidden, forgets):
    x, children, d_out = draw(rows, hidden, forgets)
    before = [array.copy() for array in (*children, d_out)]
    d_x, *d_children = backward(forward(x, children)[0], children, d_out)
    expected, expected_children = naive.lstm_backward(x.astype(np.float64), doubles(children), d_out.astype(np.float64))
    np.testing.assert_allclose(d_x, expected, rtol=1e-5, atol=2e-6)
    for d_child, d_c in zip(d_children[:forgets], expected_children, strict=True):
        np.testing.assert_allclose(d_child[:, hidden:], d_c, rtol=1e-5, atol=2e-6)
        assert (d_child[:, :hidden] == 7).all()
    assert all((d_child == 7).all() for d_child in d_children[forgets:])
    assert all(map(np.array_equal, (*children, d_out), before))


@pytest.mark.parametrize("rows, hidden", [(1, 1), (2, 1), (7, 3), (2, 8), (1, 150)])
@pytest.mark.parametrize("forgets", FORGETS)
def test_backward_equals_finite_differences_of_the_twin(rows, hidden, forgets):
    x, children, d_out = draw(rows, hidden, forgets, seed=1)
    d_x, *d_children = backward(forward(x, children)[0], children, d_out)
    x, children = x.astype(np.float64), doubles(children)
    expected = naive.finite_difference(lambda v: (naive.lstm(v, children)[1] * d_out).sum(), x.copy())
    np.testing.assert_allclose(d_x, expected, rtol=1e-5, atol=5e-6)
    for number in range(forgets):
        def loss(v, number=number):
            return (naive.lstm(x, [*children[:number], v, *children[number + 1:]])[1] * d_out).sum()
        expected = naive.finite_difference(loss, children[number].copy())
        np.testing.assert_allclose(d_children[number][:, hidden:], expected[:, hidden:], rtol=1e-5, atol=5e-6)
        assert not expected[:, :hidden].any()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9), st.integers(1, 40), st.sampled_from(FORGETS), st.floats(0.01, 20), st.integers(0, 2**32 - 1))
def test_both_directions_equal_the_twin_for_any_shape(rows, hidden, forgets, size, seed):
    x, children, d_out = draw(rows, hidden, forgets, seed, size)
    gates, out = forward(x, children)
    d_x, *d_children = backward(gates, children, d_out)
    x, children = x.astype(np.float64), doubles(children)
    expected_gates, expected = naive.lstm(x, children)
    expected_x, expected_children = naive.lstm_backward(x, children, d_out.astype(np.float64))
    scale = max(1.0, size)
    np.testing.assert_allclose(gates, expected_gates, rtol=1e-5, atol=1e-6 * scale)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6 * scale)
    np.testing.assert_allclose(d_x, expected_x, rtol=1e-5, atol=5e-6 * scale)
    for d_child, d_c in zip(d_children[:forgets], expected_children, strict=True):
        np.testing.assert_allclose(d_child[:, hidden:], d_c, rtol=1e-5, atol=5e-6 * scale)


@pytest.mark.parametrize("rows, hidden", SHAPES)
@pytest.mark.parametrize("forgets", FORGETS)
def test_unwanted_gradients_do_not_change_the_rest(rows, hidden, forgets):
    x, children, d_out = draw(rows, hidden, forgets, seed=2)
    gates, _ = forward(x, children)
    everything = backward(gates, children, d_out)
    for wanted in [(True, False), (False, True), (False, False)]:
        got = backward(gates, children, d_out, wanted)
        assert np.array_equal(got[0], everything[0])
        for d_child, full, is_wanted in zip(got[1:], everything[1:], wanted, strict=True):
            assert np.array_equal(d_child, full if is_wanted else np.empty((0, 0)))


@pytest.mark.parametrize("forgets", FORGETS)
def test_missing_forget_gates_need_no_values(forgets):
    """Zero rows do as well as NaN, or the values of the other gate."""
    x, children, d_out = draw(3, 8, forgets)
    gates, out = forward(x, children)
    d_x = backward(gates, children, d_out)[0]
    nothing = np.zeros((0, 0), np.float32)
    for missing in (nothing, children[0] if forgets == 1 else nothing):
        a, b = [*children, missing, missing][:2]
        again, out_again = np.hstack([x, np.zeros((3, 8), np.float32)]), np.empty((3, 16), np.float32)
        lstm_forward(again, forgets, a, b, out_again)
        assert np.array_equal(again, gates) and np.array_equal(out_again, out)
        lstm_backward(again, forgets, a, b, d_out, nothing, nothing)
        assert np.array_equal(again[:, :x.shape[1]], d_x)


def test_rows_do_not_depend_on_one_another():
    x, children, d_out = draw(7, 3, 2)
    gates, out = forward(x, children)
    results = (out, gates, *backward(gates, children, d_out))
    for r in range(7):
        row = slice(r, r + 1)
        mine = [child[row].copy() for child in children]
        gates_r, out_r = forward(x[row], mine)
        for got, expected in zip((out_r, gates_r, *backward(gates_r, mine, d_out[row].copy())), results, strict=True):
            np.testing.assert_allclose(got, expected[row], rtol=1e-6, atol=1e-7)


def test_an_open_forget_gate_and_closed_others_keep_the_memory():
    c = np.array([[0.0, 1e-30, -2.5, 3e4]], np.float32)
    child = np.hstack([np.full((1, 4), np.nan, np.float32), c])
    i, o, f, u = np.full((1, 4), -1e4), np.full((1, 4), 1e4), np.full((1, 4), 1e4), np.ones((1, 4))
    _, out = forward(np.hstack([i, o, f, u]).astype(np.float32), [child])
    assert np.array_equal(out[:, 4:], c)
    np.testing.assert_allclose(out[:, :4], np.tanh(c.astype(np.float64)), rtol=1e-6)
    _, out = forward(np.hstack([i, -o, -f, u]).astype(np.float32), [child])
    assert not out.any()


def block_names(forgets):
    return ["i", "o", *["f1", "f2"][:forgets], "u", "t"]


def nan_blocks(array, names, at):
    """Names of the blocks with a NaN; it must be in row 1 and column `at` of its block."""
    blocks = dict(zip(names, np.split(array, len(names), axis=1), strict=True))
    for block in blocks.values():
        assert np.isnan(block).sum() == np.isnan(block[1, at])
    return {name for name, block in blocks.items() if np.isnan(block).any()}


@pytest.mark.parametrize("forgets", FORGETS)
@pytest.mark.parametrize("hidden", [1, 3, 9])
def test_a_nan_shows_in_what_depends_on_it_and_nowhere_else(forgets, hidden):
    names = block_names(forgets)
    for at in range(hidden):
        for number, name in enumerate(names[:-1]):
            x, children, _ = draw(2, hidden, forgets)
            x[1, number * hidden + at] = np.nan
            gates, out = forward(x, children)
            assert nan_blocks(gates, names, at) == ({"o"} if name == "o" else {name, "t"})
            assert nan_blocks(out, ["h", "c"], at) == ({"h"} if name == "o" else {"h", "c"})
        for number in range(forgets):
            x, children, _ = draw(2, hidden, forgets)
            children[number][1, hidden + at] = np.nan
            gates, out = forward(x, children)
            assert nan_blocks(gates, names, at) == {"t"}
            assert nan_blocks(out, ["h", "c"], at) == {"h", "c"}
            x, children, _ = draw(2, hidden, forgets)
            children[number][1, at] = np.nan  # h of a child: only c is looked at
            assert all(np.isfinite(array).all() for array in forward(x, children))


@pytest.mark.parametrize("forgets", FORGETS)
@pytest.mark.parametrize("hidden", [1, 3, 9])
def test_a_nan_shows_in_the_gradients_that_depend_on_it_and_nowhere_else(forgets, hidden):
    names, gates_of = block_names(forgets)[:-1], ["f1", "f2"][:forgets]
    memory = {"i", "u", *gates_of}   # what c is made of

    def affected(gates, children, d_out, at):
        d_x, *d_children = backward(gates, children, d_out)
        found = nan_blocks(d_x, names, at)
        for name, d_child in zip(gates_of, d_children[:forgets], strict=True):
            found |= {f"d_{name}" for part in nan_blocks(d_child, ["h", "c"], at) if part == "c"}
        return found

    through_c = memory | {f"d_{name}" for name in gates_of}
    expected = {"i": {"i", "u"}, "u": {"i", "u"}, "o": through_c | {"o"}, "t": through_c | {"o"}}
    expected |= {name: {name, f"d_{name}"} for name in gates_of}
    for at in range(hidden):
        for half, found in enumerate([through_c | {"o"}, through_c]):
            x, children, d_out = draw(2, hidden, forgets)
            d_out[1, half * hidden + at] = np.nan
            assert affected(forward(x, children)[0], children, d_out, at) == found
        for number, name in enumerate(block_names(forgets)):
            x, children, d_out = draw(2, hidden, forgets)
            gates, _ = forward(x, children)
            gates[1, number * hidden + at] = np.nan
            assert affected(gates, children, d_out, at) == expected[name]
        for number, name in enumerate(gates_of):
            x, children, d_out = draw(2, hidden, forgets)
            gates, _ = forward(x, children)
            children[number][1, hidden + at] = np.nan
            assert affected(gates, children, d_out, at) == {name}

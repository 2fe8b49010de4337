"""Element-wise kernels against NumPy expressions of the same formulas, on one thread. `python -m benchmarks.kernels cells`.

Cells: the passes over the gates, without the matrix products. An element is one of the ROWS x HIDDEN of a cell's h, with all of
its gates. Bytes are what a pass must read and write, each array once: float32 words an element, given with each pass.

Kernels that work in place get their input copied back before each call (gradients of gradients would shrink to denormals); the
copying alone is timed too and subtracted. NumPy's expressions make new arrays and are not given that.

Everything is hot, in loops of some milliseconds, by turns, timed by the thread's processor time; numbers are medians over the
rounds. Results are compared first.
"""

from functools import partial
from statistics import median

import numpy as np
from numba import njit

from ampnet.kernels.activations import (
    NONE,
    RELU,
    SIGMOID,
    TANH,
    add_bias_activate,
    exp32,
    sigmoid32,
    tanh32,
)
from ampnet.kernels.gru import gru_backward, gru_forward
from ampnet.kernels.lstm import lstm_backward, lstm_forward

from .rounds import by_turns, print_table, seconds

ROWS, HIDDEN = 32, 128
VECTOR = 4096              # elements of a plain function: 16 KiB in, 16 KiB out
BATCH_ELEMENTS = 1 << 20   # of one timed loop
TOLERANCE = 1e-5

compiled = njit(nogil=True, error_model="numpy", fastmath=False)


@compiled
def repeat(kernel, calls, saved, changed, others):
    for _ in range(calls):
        changed[:] = saved
        kernel(changed, *others)


@compiled
def only_copied(changed, *others):
    changed[0, 0] += 1


@compiled
def exp_all(x, y):
    for i in range(len(x)):
        y[i] = exp32(x[i])


@compiled
def tanh_all(x, y):
    for i in range(len(x)):
        y[i] = tanh32(x[i])


@compiled
def sigmoid_all(x, y):
    for i in range(len(x)):
        y[i] = sigmoid32(x[i])


@compiled
def apply(kernel, calls, x, y):
    for _ in range(calls):
        kernel(x, y)


@compiled
def bias_activate(values, code, bias):
    add_bias_activate(code, values, bias)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_lstm_forward(pre, children):
    """(gates [i | o | f.. | u | t], [h | c])"""
    i, o, *f, u = np.split(pre, 3 + len(children), axis=1)
    i, o, f, u = sigmoid(i), sigmoid(o), [sigmoid(x) for x in f], np.tanh(u)
    c = i * u
    for gate, child in zip(f, children, strict=True):
        c = c + gate * child[:, HIDDEN:]
    t = np.tanh(c)
    return np.hstack([i, o, *f, u, t]), np.hstack([o * t, c])


def numpy_lstm_backward(gates, children, d_out):
    """(gradient of the pre-activations, [d_c of each child])"""
    i, o, *f, u, t = np.split(gates, 4 + len(children), axis=1)
    dh, dc = d_out[:, :HIDDEN], d_out[:, HIDDEN:]
    dc = dc + dh * o * (1 - t * t)
    d_f = [dc * child[:, HIDDEN:] * gate * (1 - gate) for gate, child in zip(f, children, strict=True)]
    return np.hstack([dc * u * i * (1 - i), dh * t * o * (1 - o), *d_f, dc * i * (1 - u * u)]), [dc * gate for gate in f]


def numpy_gru_forward(pre, h):
    """(gates [n | r | z | m], h')"""
    n, r, z, m = np.split(pre, 4, axis=1)
    r, z = sigmoid(r), sigmoid(z)
    n = np.tanh(n + r * m)
    return np.hstack([n, r, z, m]), n + z * (h - n)


def numpy_gru_backward(gates, h, d):
    """(gradient of the pre-activations, d_h)"""
    n, r, z, m = np.split(gates, 4, axis=1)
    dn = d * (1 - z) * (1 - n * n)
    return np.hstack([dn, dn * m * r * (1 - r), d * (h - n) * z * (1 - z), dn * r]), d * z


def draw(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def lstm_passes(rng, name, forgets):
    """Forward and backward of an LSTM with so many forget gates: (name, words, kernel, saved, others, NumPy's, columns)."""
    used, gates = (3 + forgets) * HIDDEN, (4 + forgets) * HIDDEN
    pre, children = draw(rng, ROWS, gates), [draw(rng, ROWS, 2 * HIDDEN) for _ in range(forgets)]
    a, b = (children * 2 if forgets else [draw(rng, ROWS, 2 * HIDDEN)] * 2)[:2]
    d_out, out = draw(rng, ROWS, 2 * HIDDEN), draw(rng, ROWS, 2 * HIDDEN)
    d_a, d_b = draw(rng, ROWS, 2 * HIDDEN), draw(rng, ROWS, 2 * HIDDEN)
    values, _ = numpy_lstm_forward(pre[:, :used], children)
    read, written = 3 + forgets, 4 + forgets   # of the gates, forward
    return [(f"{name} forward", read + written + forgets + 2, lstm_forward, pre, (forgets, a, b, out),
             partial(numpy_lstm_forward, pre[:, :used], children), gates),
            (f"{name} backward", 2 * written + 2 * forgets + 2, lstm_backward, values, (forgets, a, b, d_out, d_a, d_b),
             partial(numpy_lstm_backward, values, children, d_out), used)]


def gru_passes(rng):
    """Forward and backward of a GRU; tuples as of `lstm_passes`."""
    pre, h, out, d, d_h = draw(rng, ROWS, 4 * HIDDEN), *(draw(rng, ROWS, HIDDEN) for _ in range(4))
    values, _ = numpy_gru_forward(pre, h)
    return [("GRUCell forward", 4 + 3 + 2, gru_forward, pre, (h, out), partial(numpy_gru_forward, pre, h), 4 * HIDDEN),
            ("GRUCell backward", 4 + 4 + 3, gru_backward, values, (h, d, d_h), partial(numpy_gru_backward, values, h, d),
             4 * HIDDEN)]


def bias_passes(rng):
    """Bias and activation of a Linear; tuples as of `lstm_passes`."""
    x, bias = draw(rng, ROWS, HIDDEN), draw(rng, HIDDEN)
    formulas = [("bias", NONE, lambda: (x + bias,)), ("bias, ReLU", RELU, lambda: (np.maximum(x + bias, 0),)),
                ("bias, tanh", TANH, lambda: (np.tanh(x + bias),)), ("bias, sigmoid", SIGMOID, lambda: (sigmoid(x + bias),))]
    return [(name, 2, bias_activate, x, (code, bias), formula, HIDDEN) for name, code, formula in formulas]


def repeat_python(function, calls):
    for _ in range(calls):
        function()


def check(name, ours, theirs):
    distance = np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)
    if not distance < TOLERANCE:
        raise AssertionError(f"{name}: ours and NumPy's differ by {distance:.1e}")


def result(name, words, ours, numpy, calls, elements):
    """Seconds of `calls` calls as nanoseconds an element and GB/s."""
    to_nanoseconds = 1e9 / (calls * elements)
    ours, numpy = ours * to_nanoseconds, numpy * to_nanoseconds
    return {"name": name, "ours_ns": ours, "ours_gb_s": 4 * words / ours, "numpy_ns": numpy, "ratio": numpy / ours}


def time_pass(name, words, kernel, saved, others, formula, columns, rounds):
    """One kernel that works in place on a copy of `saved`; `columns` of it hold the first result of `formula`."""
    changed, elements = np.empty_like(saved), ROWS * HIDDEN
    repeat(kernel, 1, saved, changed, others)
    check(name, changed[:, :columns], formula()[0])
    calls = BATCH_ELEMENTS // elements
    found = by_turns({"both": lambda: seconds(repeat, kernel, calls, saved, changed, others),
                      "copy": lambda: seconds(repeat, only_copied, calls, saved, changed, others),
                      "numpy": lambda: seconds(repeat_python, formula, calls)}, rounds)
    return result(name, words, median(found["both"]) - median(found["copy"]), median(found["numpy"]), calls, elements)


def time_function(name, kernel, formula, rounds):
    """One function of a vector."""
    x, y = np.linspace(-8, 8, VECTOR, dtype=np.float32), np.empty(VECTOR, np.float32)
    z = np.empty_like(x)
    apply(kernel, 1, x, y)
    formula(x, z)
    check(name, y, z)
    calls = BATCH_ELEMENTS // VECTOR
    found = by_turns({"ours": lambda: seconds(apply, kernel, calls, x, y),
                      "numpy": lambda: seconds(repeat_python, partial(formula, x, z), calls)}, rounds)
    return result(name, 2, median(found["ours"]), median(found["numpy"]), calls, VECTOR)


def run(rounds):
    """Time and print all passes; returns what goes into the JSON file."""
    rng = np.random.default_rng(0)
    passes = [*lstm_passes(rng, "TreeLSTMLeaf", 0), *lstm_passes(rng, "LSTMCell", 1), *lstm_passes(rng, "TreeLSTMBranch", 2),
              *gru_passes(rng), *bias_passes(rng)]
    functions = [("exp", exp_all, np.exp), ("tanh", tanh_all, np.tanh),
                 ("sigmoid", sigmoid_all, lambda x, out: np.divide(1, 1 + np.exp(-x), out=out))]
    print(f"cells of {ROWS} rows x {HIDDEN}, functions of {VECTOR} elements; hot; medians of {rounds} rounds\n", flush=True)
    results = [time_pass(*each, rounds) for each in passes] + [time_function(*each, rounds) for each in functions]
    print_table(["", "ns an element", "GB/s", "NumPy, ns an element", "times as fast"],
                [[r["name"], f"{r['ours_ns']:.2f}", f"{r['ours_gb_s']:.1f}", f"{r['numpy_ns']:.2f}", f"{r['ratio']:.1f}"]
                 for r in results])
    return {"cells": results}

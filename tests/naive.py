"""Plain NumPy float64 twins of the kernels: short, obvious, and the oracle of their tests."""

import numpy as np

ACTIVATIONS = {
    None: (lambda x: x, lambda y: np.ones_like(y)),
    "relu": (lambda x: np.where(x < 0, 0, x), lambda y: (y > 0).astype(float)),
    "tanh": (np.tanh, lambda y: 1 - y * y),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda y: y * (1 - y)),
}


def gather(table, ids):
    """Rows of the table."""
    return table[ids]


def scatter_add(gradient, ids, rows):
    """The gradient with rows added where `gather` took them."""
    gradient = gradient.copy()
    for i, row in zip(ids, rows, strict=True):
        gradient[i] += row
    return gradient


def softmax_cross_entropy(logits, labels):
    """(loss summed over rows, gradient, correct rows)."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    p = np.exp(shifted)
    p /= p.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(p[rows, labels]).sum()
    gradient = p.copy()
    gradient[rows, labels] -= 1
    return loss, gradient, int((logits.argmax(axis=1) == labels).sum())


def add_rows(out, x, source, target):
    """out with the source rows of x added to its target rows."""
    return scatter_add(out, target, gather(x, source))


def select_row(scores, answer):
    """(loss, gradient, number of the first largest score)."""
    p = np.exp(scores - max(scores))
    p /= p.sum()
    return -np.log(p[answer]), p - (np.arange(len(scores)) == answer), list(scores).index(max(scores))


def lstm(x, children):
    """([i | o | f_1 .. | u | t], [h | c]) from pre-activations [i | o | f_1 .. | u] and one value [h | c] a forget gate."""
    sigmoid = ACTIVATIONS["sigmoid"][0]
    i, o, *forget, u = np.split(x, 3 + len(children), axis=1)
    i, o, u, forget = sigmoid(i), sigmoid(o), np.tanh(u), [sigmoid(f) for f in forget]
    c = i * u
    for f, child in zip(forget, children, strict=True):
        c = c + f * np.split(child, 2, axis=1)[1]
    t = np.tanh(c)
    return np.hstack([i, o, *forget, u, t]), np.hstack([o * t, c])


def lstm_backward(x, children, d_out):
    """(gradient of the pre-activations, list with the gradient of each child's c)."""
    i, o, *forget, u, t = np.split(lstm(x, children)[0], 4 + len(children), axis=1)
    dh, dc = np.split(d_out, 2, axis=1)
    dc = dc + dh * o * (1 - t ** 2)
    before = [np.split(child, 2, axis=1)[1] for child in children]
    d_forget = [dc * c * f * (1 - f) for f, c in zip(forget, before, strict=True)]
    d_x = np.hstack([dc * u * i * (1 - i), dh * t * o * (1 - o), *d_forget, dc * i * (1 - u ** 2)])
    return d_x, [dc * f for f in forget]


def gru(x, h):
    """([candidate | r | z | m], h') from pre-activations [n | r | z | m] and h."""
    n, r, z, m = np.split(x, 4, axis=1)
    r, z = ACTIVATIONS["sigmoid"][0](r), ACTIVATIONS["sigmoid"][0](z)
    n = np.tanh(n + r * m)
    return np.hstack([n, r, z, m]), (1 - z) * n + z * h


def gru_backward(x, h, d_out):
    """(gradient of the pre-activations, gradient of h)."""
    n, r, z, m = np.split(gru(x, h)[0], 4, axis=1)
    d_n = d_out * (1 - z) * (1 - n ** 2)
    return np.hstack([d_n, d_n * m * r * (1 - r), d_out * (h - n) * z * (1 - z), d_n * r]), d_out * z


def gated_sum(gate, x):
    """(sigmoids, sum over rows of sigmoid(gate) x)."""
    g = ACTIVATIONS["sigmoid"][0](gate)
    return g, (g * x).sum(axis=0)


def gated_sum_backward(gate, x, d_out):
    """(gradient of the gate's pre-activation, gradient of x)."""
    g = ACTIVATIONS["sigmoid"][0](gate)
    return d_out * x * g * (1 - g), d_out * g


def mix(word):
    """SplitMix64's finaliser in Python's integers."""
    word ^= word >> 30
    word = word * 0xBF58476D1CE4E5B9 % 2 ** 64
    word ^= word >> 27
    word = word * 0x94D049BB133111EB % 2 ** 64
    return word ^ word >> 31


def survivors(count, key, rate):
    """Which elements dropout keeps: two draws of 32 bits, low half first, from each number of SplitMix64 seeded with key."""
    draws = []
    for number in range(1, count // 2 + 2):
        high, low = divmod(mix((key + number * 0x9E3779B97F4A7C15) % 2 ** 64), 2 ** 32)
        draws += [low, high]
    return np.array([draw / 2 ** 32 >= rate for draw in draws[:count]], bool)


def drop(values, key, rate):
    """Dropout: survivors divided by 1 - rate, zeros elsewhere."""
    return np.where(survivors(len(values), key, rate), values / (1 - rate), 0)


def squared_error(predictions, targets):
    """(loss, gradient, absolute error)."""
    difference = predictions - targets
    return 0.5 * (difference ** 2).sum(), difference, np.abs(difference).sum()


def step(name, w, g, first, second, rate, beta1, beta2, epsilon, decay, number):
    """New (w, first, second) after one optimizer step."""
    g = g + decay * w
    if name == "sgd":
        return w - rate * g, first, second
    if name == "momentum":
        first = beta1 * first + g
        return w - rate * first, first, second
    if name == "adagrad":
        first = first + g * g
        return w - rate * g / (np.sqrt(first) + epsilon), first, second
    first = beta1 * first + (1 - beta1) * g
    second = beta2 * second + (1 - beta2) * g * g
    m, v = first / (1 - beta1 ** number), second / (1 - beta2 ** number)
    return w - rate * m / (np.sqrt(v) + epsilon), first, second


def squared_norm(gradient):
    """Sum of squares."""
    return (np.asarray(gradient, np.float64) ** 2).sum()


def clip_factor(squared, scale, clip):
    """min(1, clip / norm of the scaled gradient); clip 0 never clips."""
    norm = np.sqrt(squared) * scale
    return min(1.0, clip / norm) if clip and norm else 1.0


def learning_rate(schedule, base, instances, total, warmup, step_every, step_factor):
    """The rate after so many training instances."""
    factor = {
        "constant": lambda: 1.0,
        "step": lambda: np.prod([step_factor] * (instances // step_every)),
        "cosine": lambda: (1 + np.cos(np.pi * min(instances, total) / total)) / 2,
    }[schedule]()
    return base * factor * (min(1.0, (instances + 1) / warmup) if warmup else 1.0)


def finite_difference(function, x, epsilon=1e-6):
    """Central differences of a scalar function of a float64 array."""
    gradient = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        old = x[i]
        x[i] = old + epsilon
        above = function(x)
        x[i] = old - epsilon
        below = function(x)
        x[i] = old
        gradient[i] = (above - below) / (2 * epsilon)
    return gradient


def is_product(got, x, w, before=0):
    """Whether `got` is before + x @ w to float32's rounding of the terms, however these cancel."""
    x, w, before = (np.asarray(a, float) for a in (x, w, before))
    return bool((np.abs(got - (before + x @ w)) <= 4e-6 * (np.abs(before) + np.abs(x) @ np.abs(w))).all())


def distance(got, expected):
    """||got - expected|| / ||expected||."""
    expected = np.asarray(expected, np.float64)
    return float(np.linalg.norm(np.asarray(got, np.float64) - expected) / max(np.linalg.norm(expected), 1e-30))

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


def distance(got, expected):
    """||got - expected|| / ||expected||."""
    expected = np.asarray(expected, np.float64)
    return float(np.linalg.norm(np.asarray(got, np.float64) - expected) / max(np.linalg.norm(expected), 1e-30))

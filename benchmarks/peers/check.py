"""That a peer computes what ours does: loss and every gradient of its first batch, from the same values."""

import numpy as np

LIMIT = 1e-4
SMALL = 1e-2   # of the norm of all gradients: a smaller one, such as a sum of errors that cancel, is compared on this scale


class Differs(Exception):
    """A contestant does not compute the same; says which, and where."""


def compare(contestant, ours):
    """(largest relative error, where); raises `Differs` where it is too large. ours: instances -> (loss, gradients)."""
    expected_loss, expected = ours(contestant.first)
    loss, got = contestant.gradients()
    if set(got) != set(expected):
        raise Differs(f"{contestant.name}: gradients of {sorted(got)}, expected those of {sorted(expected)}")
    total = np.sqrt(sum(np.linalg.norm(gradient) ** 2 for gradient in expected.values()))
    errors = {name: distance(got[name], gradient, SMALL * total) for name, gradient in expected.items()}
    errors["loss"] = abs(loss - expected_loss) / abs(expected_loss)
    worst = max(errors, key=errors.get)
    if not errors[worst] < LIMIT:
        raise Differs(f"{contestant.name}: '{worst}' differs from ours by {errors[worst]:.1e} of its norm")
    return errors[worst], worst


def distance(got, expected, least):
    """||got - expected|| / ||expected||, or / `least` where that is more."""
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    if got.shape != expected.shape:
        return np.inf
    return np.linalg.norm(got - expected) / max(np.linalg.norm(expected), least, np.finfo(float).tiny)

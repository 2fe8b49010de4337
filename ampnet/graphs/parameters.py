"""The arrays a node learns, with their gradients and optimizer state."""

import numpy as np

from ..kernels.optimizers import STATES
from ..runtime.memory import allocate
from ..runtime.records import PARAMETER_DTYPE


class Parameter:
    """A float32 matrix or vector.

    shape: of the value; initial: function (rng, shape) -> array; sparse: only rows with gradients are updated (a table
    of embeddings). Optimizer state that decays over time (momentum, Adam) stands still for the other rows.
    """

    def __init__(self, shape, initial, sparse=False):
        self.shape, self.initial, self.sparse = tuple(shape), initial, sparse
        rows, cols = (1, *self.shape)[-2:]
        self.rows, self.cols = rows, cols
        self.value, self.gradient = self._zeros(), self._zeros()
        self.states = []
        self.record = allocate(PARAMETER_DTYPE)
        r = self.record
        r["value"], r["gradient"], r["rows"], r["cols"] = self.value.ctypes.data, self.gradient.ctypes.data, rows, cols
        if sparse:
            self._touched, self._marks = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
            r["touched"], r["marks"] = self._touched.ctypes.data, self._marks.ctypes.data

    def _zeros(self):
        return allocate(np.float32, self.rows * self.cols).reshape(self.shape)

    def initialise(self, rng):
        self.value[...] = self.initial(rng, self.shape)
        self.gradient[...] = 0
        for state in self.states:
            state[...] = 0

    def like(self):
        """Another one of the same kind, not initialised."""
        return Parameter(self.shape, self.initial, self.sparse)

    @property
    def arrays(self):
        """The value, then the optimizer's state."""
        return [self.value, *self.states]

    def use_optimizer(self, code):
        """Lay out the state arrays an optimizer needs; the ones that are there are kept."""
        self.states = (self.states + [self._zeros(), self._zeros()])[:STATES[code]]
        for name, index in (("first", 0), ("second", 1)):
            self.record[name] = self.states[index].ctypes.data if index < len(self.states) else 0


def uniform(limit):
    """Initial values drawn evenly from [-limit, limit]."""
    return lambda rng, shape: rng.uniform(-limit, limit, shape)


def normal(deviation):
    """Normally distributed initial values."""
    return lambda rng, shape: rng.normal(0, deviation, shape)


def zeros(rng, shape):
    return np.zeros(shape)

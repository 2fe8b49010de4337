"""A node kind of a user's own: Scale, Y = X * a with one learned factor a column. The same as in docs/nodes.md."""

from ampnet.graphs.kit import (
    DONE,
    MESSAGE,
    NO_ACTIVATION,
    SAME_STATE,
    USER_FAILURE,
    GraphError,
    Node,
    Parameter,
    blame,
    copy_values,
    is_training,
    keep,
    messages,
    new_block,
    node_dtype,
    operation,
    pass_back,
    pass_on,
    payload,
    positive,
    record,
    release,
    shape,
    take,
    vector,
)
from ampnet.testing import reference

SCALE_DTYPE = node_dtype("factor", "factor_gradient", "fail_at")
SCALE = record(SCALE_DTYPE)


class Scale(Node):
    """Y[r, j] = X[r, j] * a[j]. X, Y (rows, width), a (width,), all float32.

    fail_at: an instance at which the operation reports a failure, to try what happens then.
    """

    dtype, transparent = SCALE_DTYPE, True

    def __init__(self, width, fail_at=-1, name=None):
        super().__init__(name)
        self.width, self.fail_at = positive(width, "Scale: width"), fail_at
        self.parameters = {"factor": Parameter((width,), lambda rng, shape: rng.normal(1, 0.1, shape))}

    def output_widths(self, widths):
        if widths[0] != self.width:
            raise GraphError(f"'{self.name}' takes {shape(self.width)} but is fed {shape(widths[0])}")
        return widths

    def fill(self, record, graph):
        factor = self.parameters["factor"]
        record["width"], record["fail_at"] = self.width, self.fail_at
        record["factor"], record["factor_gradient"] = factor.value.ctypes.data, factor.gradient.ctypes.data
        return []

    def cost(self):
        return self.width


@operation
def forward(worker, node, batch, count):
    """Y = X * a in the message itself; keeps a copy of X."""
    self = SCALE(node)
    a = vector(self.factor, self.width)
    for message in messages(batch, count):
        m = MESSAGE(message)
        if m.state[0] == self.fail_at:
            return blame(worker, message, USER_FAILURE + 7)
        if is_training(worker):
            x = new_block(worker, m.rows, m.cols, message)
            copy_values(x, message)
            if not keep(worker, node, x, self.version):
                return blame(worker, message, SAME_STATE)
        y = payload(message)
        for r in range(y.shape[0]):
            for j in range(y.shape[1]):
                y[r, j] *= a[j]
        pass_on(worker, node, 0, message)
    return DONE


@operation
def backward(worker, node, batch, count):
    """da[j] += sum over r of dY[r, j] X[r, j]; dX = dY * a."""
    self = SCALE(node)
    a, gradient = vector(self.factor, self.width), vector(self.factor_gradient, self.width)
    for message in messages(batch, count):
        x = take(node, message)
        if x == 0:
            return blame(worker, message, NO_ACTIVATION)
        d, inputs = payload(message), payload(x)
        for r in range(d.shape[0]):
            for j in range(d.shape[1]):
                gradient[j] += d[r, j] * inputs[r, j]
                d[r, j] *= a[j]
        release(worker, x)
        pass_back(worker, node, 0, message)
    return DONE


Scale.forward, Scale.backward = forward, backward


@reference(Scale)
def scale(node, run, m):
    a = run.parameter(node, "factor")
    if m.forward:
        run.keep(node, m.state, m.payload)
        run.on(node, 0, m.state, m.payload * a)
    else:
        run.gradient(node, "factor")[...] += (m.payload * run.take(node, m.state)).sum(axis=0)
        run.back(node, 0, m.state, m.payload * a)

"""Linear: Y = f(X W + b), with an optional activation f.

The rows of all messages of a call are multiplied where they lie; results go straight into the next messages. The weight
gradient waits until a few dozen rows are there, or until the update, and is then one product.
"""

import math

from ...errors import GraphError
from ...kernels.activations import CODES, NONE, activate_backward, add_bias_activate
from ...kernels.gemm import outer_product, product, transpose
from ...runtime.atomics import store
from ...runtime.memory import allocate, helper, integers, matrix, record, vector
from ...runtime.message import (
    DONE,
    MESSAGE,
    NO_ACTIVATION,
    SAME_STATE,
    WRONG_SHAPE,
    answer,
    blame,
    copy_values,
    count_rows,
    emit,
    is_training,
    list_rows,
    messages,
    new_block,
    operation,
    payload,
    release,
    release_chain,
    scratch,
    send,
    values,
)
from ...runtime.records import node_dtype
from ...runtime.table import keep, take
from ..parameters import Parameter, uniform, zeros
from .node import Node, positive, shape

HELD_ROWS = 48       # weight gradients are computed for at least so many rows at a time
HELD_LIMIT = 1 << 12  # capacity of the tables of held rows; a larger call is computed at once

LINEAR_DTYPE = node_dtype("weight", "bias", "weight_gradient", "bias_gradient", "transposed", "activation",
                          "held_x", "held_d")
LINEAR = record(LINEAR_DTYPE)


class Linear(Node):
    """Y = f(X W + b). X (rows, inputs), W (inputs, outputs), b (outputs,), Y (rows, outputs).

    activation: None, "relu", "tanh" or "sigmoid". W starts uniform in +-sqrt(6 / inputs) before a ReLU (He) and
    +-sqrt(6 / (inputs + outputs)) otherwise (Glorot), b at zero.
    """

    dtype, transparent = LINEAR_DTYPE, True

    def __init__(self, inputs, outputs, activation=None, name=None):
        super().__init__(name)
        self.input_width, self.output_width = positive(inputs, "Linear: inputs"), positive(outputs, "Linear: outputs")
        if activation not in CODES:
            known = ", ".join(str(c) for c in CODES)
            raise GraphError(f"Linear: unknown activation {activation!r}; known: {known}")
        self.activation = activation
        fan = inputs if activation == "relu" else inputs + outputs
        self.parameters = {"weight": Parameter((inputs, outputs), uniform(math.sqrt(6 / fan))),
                           "bias": Parameter((outputs,), zeros)}

    def output_widths(self, widths):
        if widths[0] != self.input_width:
            raise GraphError(f"'{self.name}' takes {shape(self.input_width)} but is fed {shape(widths[0])}")
        return [self.output_width]

    def fill(self, record, graph):
        weight, bias = self.parameters["weight"], self.parameters["bias"]
        transposed = allocate("f4", self.input_width * self.output_width)
        tables = allocate("i8", 2 * HELD_LIMIT)
        record["width"], record["out_width"] = self.input_width, self.output_width
        record["weight"], record["weight_gradient"] = weight.value.ctypes.data, weight.gradient.ctypes.data
        record["bias"], record["bias_gradient"] = bias.value.ctypes.data, bias.gradient.ctypes.data
        record["transposed"], record["activation"] = transposed.ctypes.data, CODES[self.activation]
        record["held_x"], record["held_d"] = tables.ctypes.data, tables[HELD_LIMIT:].ctypes.data
        return [transposed, tables]

    def cost(self):
        return 2 * self.input_width * self.output_width

    def backward_cost(self):
        return (2 if self.input_gradient else 1) * self.cost()


@helper
def hold(worker, node, x_rows, d_rows, total, chain):
    """Put rows of X and D, and the blocks they lie in, aside for the weight gradient."""
    self = LINEAR(node)
    for i in range(total):
        at = 8 * (self.held_rows + i)
        store(self.held_x + at, x_rows[i])
        store(self.held_d + at, d_rows[i])
    self.held_rows += total
    last = chain
    while MESSAGE(last).next != 0:
        last = MESSAGE(last).next
    MESSAGE(last).next = self.held
    self.held = chain


@helper
def settle_held(worker, node):
    """dW += X^T D over the rows held."""
    self = LINEAR(node)
    rows = self.held_rows
    outer_product(integers(self.held_x, rows), integers(self.held_d, rows), rows,
                  matrix(self.weight_gradient, self.width, self.out_width))
    release_chain(worker, self.held)
    self.held = 0
    self.held_rows = 0


@operation
def forward(worker, node, batch, count):
    """Y = f(X W + b); keeps X, and Y where the activation needs it."""
    self = LINEAR(node)
    total = count_rows(batch, count)
    x_rows, y_rows = scratch(worker, 0, total), scratch(worker, 1, total)
    results = scratch(worker, 2, count)
    at = 0
    for i, message in enumerate(messages(batch, count)):
        m = MESSAGE(message)
        if m.cols != self.width:
            return blame(worker, message, WRONG_SHAPE)
        results[i] = emit(worker, node, 0, message, m.rows, self.out_width)
        list_rows(x_rows, at, message)
        at = list_rows(y_rows, at, results[i])
    product(x_rows, matrix(self.weight, self.width, self.out_width), y_rows, total, 0)
    bias, training = vector(self.bias, self.out_width), is_training(worker)
    for i, message in enumerate(messages(batch, count)):
        result = results[i]
        y = payload(result)
        add_bias_activate(self.activation, y, bias)
        if training:
            if self.activation != NONE:
                copy = new_block(worker, y.shape[0], y.shape[1], message)
                copy_values(copy, result)
                MESSAGE(message).next = copy
            if not keep(worker, node, message, self.version):
                return blame(worker, message, SAME_STATE)
        else:
            release(worker, message)
        send(worker, result)
    return DONE


@operation
def backward(worker, node, batch, count):
    """D = dY * f'(Y); dX = D W^T; db += sum of D's rows; dW += X^T D, held back until there are rows enough."""
    self = LINEAR(node)
    total = count_rows(batch, count)
    if self.held_rows + total > HELD_LIMIT:
        settle_held(worker, node)
    d_rows, dx_rows, x_rows = scratch(worker, 0, total), scratch(worker, 1, total), scratch(worker, 2, total)
    bias_gradient = vector(self.bias_gradient, self.out_width)
    at, chain = 0, 0
    for message in messages(batch, count):
        m = MESSAGE(message)
        x = take(node, message)
        if x == 0:
            return blame(worker, message, NO_ACTIVATION)
        if m.cols != self.out_width or m.rows != MESSAGE(x).rows:
            return blame(worker, message, WRONG_SHAPE)
        if self.activation != NONE:
            y = MESSAGE(x).next
            activate_backward(self.activation, values(y), values(message))
            release(worker, y)
        d = payload(message)
        for r in range(d.shape[0]):
            for j in range(d.shape[1]):
                bias_gradient[j] += d[r, j]
        self.staleness += self.version - MESSAGE(x).version
        list_rows(d_rows, at, message)
        list_rows(x_rows, at, x)
        if self.input_gradient != 0:
            dx = answer(worker, node, 0, message, m.rows, self.width)
            list_rows(dx_rows, at, dx)
        else:
            dx = answer(worker, node, 0, message, 0, 0)
        at += m.rows
        send(worker, dx)
        MESSAGE(x).next = chain
        m.next = x
        chain = message
    if self.input_gradient != 0:
        product(d_rows, matrix(self.transposed, self.out_width, self.width), dx_rows, total, 0)
    if total > HELD_LIMIT:
        outer_product(x_rows, d_rows, total, matrix(self.weight_gradient, self.width, self.out_width))
        release_chain(worker, chain)
        return DONE
    hold(worker, node, x_rows, d_rows, total, chain)
    if self.held_rows >= HELD_ROWS:
        settle_held(worker, node)
    return DONE


@operation
def settle(worker, node, batch, count):
    """Before an update: compute what was held back."""
    settle_held(worker, node)
    return DONE


@operation
def refresh(worker, node, batch, count):
    """After an update: renew the transposed copy that backward multiplies by."""
    self = LINEAR(node)
    transpose(matrix(self.weight, self.width, self.out_width), matrix(self.transposed, self.out_width, self.width))
    return DONE


Linear.forward, Linear.backward, Linear.settle, Linear.refresh = forward, backward, settle, refresh

"""Linear: Y = f(X W + b), with an optional activation f.

The rows of all messages of a call are multiplied where they lie; results go straight into the next messages. The weight
gradient waits until a few dozen rows are there, or until the update, and is then one product.
"""

import math

from ...errors import GraphError
from ...kernels.activations import CODES, NONE, activate_backward, add_bias_activate
from ...runtime.memory import record, vector
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
    scratch,
    send,
    values,
)
from ...runtime.table import keep, take
from ..parameters import Parameter, uniform, zeros
from . import affine
from .affine import (
    add_bias_gradient,
    affine_node,
    fill_maps,
    glorot,
    hold_blocks,
    hold_rows,
    make_room,
    multiply,
    multiply_back,
)
from .node import Node, positive, shape

LINEAR_DTYPE = affine_node("bias", "bias_gradient", "activation")
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
        initial = uniform(math.sqrt(6 / inputs)) if activation == "relu" else glorot(inputs, outputs)
        self.parameters = {"weight": Parameter((inputs, outputs), initial),
                           "bias": Parameter((outputs,), zeros)}

    def output_widths(self, widths):
        if widths[0] != self.input_width:
            raise GraphError(f"'{self.name}' takes {shape(self.input_width)} but is fed {shape(widths[0])}")
        return [self.output_width]

    def fill(self, record, graph):
        bias = self.parameters["bias"]
        record["width"], record["out_width"] = self.input_width, self.output_width
        record["bias"], record["bias_gradient"] = bias.value.ctypes.data, bias.gradient.ctypes.data
        record["activation"] = CODES[self.activation]
        return fill_maps(record, [self.parameters["weight"]])

    def cost(self):
        return 2 * self.input_width * self.output_width

    def backward_cost(self):
        return (2 if self.input_gradient else 1) * self.cost()


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
    multiply(self.maps, x_rows, y_rows, total, 0)
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
    make_room(worker, node, total)
    d_rows, dx_rows, x_rows = scratch(worker, 0, total), scratch(worker, 1, total), scratch(worker, 2, total)
    bias_gradient = vector(self.bias_gradient, self.out_width)
    at, chain, last = 0, 0, 0
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
        add_bias_gradient(payload(message), bias_gradient)
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
        if chain == 0:
            last = x
        chain = message
    if self.input_gradient != 0:
        multiply_back(self.maps, d_rows, dx_rows, total, 0)
    hold_rows(node, 0, x_rows, d_rows, total)
    hold_blocks(worker, node, chain, last, total)
    return DONE


Linear.forward, Linear.backward, Linear.settle, Linear.refresh = forward, backward, affine.settle, affine.refresh

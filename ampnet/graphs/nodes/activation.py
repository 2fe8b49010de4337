"""Activations as nodes of their own: Relu, Tanh, Sigmoid."""

from ...kernels.activations import CODES, activate, activate_backward
from ...runtime.message import (
    DONE,
    MESSAGE,
    NO_ACTIVATION,
    SAME_STATE,
    WRONG_SHAPE,
    blame,
    copy_values,
    is_training,
    messages,
    new_block,
    operation,
    pass_back,
    pass_on,
    release,
    values,
)
from ...runtime.records import NODE
from ...runtime.table import keep, take
from .node import Node


class Activation(Node):
    """Y = f(X), element by element; any shape."""

    transparent = True
    code = None

    def output_widths(self, widths):
        return widths

    def fill(self, record, graph):
        record["width"] = self.code
        return []

    def cost(self):
        return self.outputs[0].width


class Relu(Activation):
    """Y = max(X, 0)."""

    code = CODES["relu"]


class Tanh(Activation):
    """Y = tanh(X)."""

    code = CODES["tanh"]


class Sigmoid(Activation):
    """Y = 1 / (1 + exp(-X))."""

    code = CODES["sigmoid"]


@operation
def forward(worker, node, batch, count):
    """Y = f(X) in the message itself; keeps a copy of Y."""
    code, training = NODE(node).width, is_training(worker)
    for message in messages(batch, count):
        y = values(message)
        activate(code, y)
        if training:
            copy = new_block(worker, MESSAGE(message).rows, MESSAGE(message).cols, message)
            copy_values(copy, message)
            if not keep(worker, node, copy, 0):
                return blame(worker, message, SAME_STATE)
        pass_on(worker, node, 0, message)
    return DONE


@operation
def backward(worker, node, batch, count):
    """dX = dY * f'(Y) in the message itself; a receipt stays a receipt."""
    code = NODE(node).width
    for message in messages(batch, count):
        y = take(node, message)
        if y == 0:
            return blame(worker, message, NO_ACTIVATION)
        m, k = MESSAGE(message), MESSAGE(y)
        if m.cols != 0:
            if m.rows != k.rows or m.cols != k.cols:
                return blame(worker, message, WRONG_SHAPE)
            activate_backward(code, values(y), values(message))
        release(worker, y)
        pass_back(worker, node, 0, message)
    return DONE


Activation.forward, Activation.backward = forward, backward

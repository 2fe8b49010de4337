"""Linear: Y = f(X W + b), with an optional activation f; X may come in two parts.

The rows of all messages of a call are multiplied where they lie; results go straight into the next messages. Two parts are
joined by the whole state and each is multiplied by its rows of W, as if they had been put side by side. The weight
gradient waits until a few dozen rows are there, or until the update, and is then one product an input.
"""

import math

import numpy as np

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
    note_staleness,
    operation,
    payload,
    release,
    release_chain,
    scratch,
    send,
    values,
)
from ...runtime.table import keep, take
from ..parameters import Parameter, uniform, zeros
from . import affine, held
from .affine import (
    PORT,
    PORT_SIZE,
    SIZE,
    add_bias_gradient,
    affine_node,
    answer_port,
    fill_maps,
    fill_ports,
    glorot,
    join_inputs,
    multiply,
    multiply_back,
)
from .held import hold
from .joining import WAITING
from .node import Node, positive, shape

LINEAR_DTYPE = affine_node("bias", "bias_gradient", "activation")
LINEAR = record(LINEAR_DTYPE)


class Linear(Node):
    """Y = f(X W + b). X (rows, inputs), W (inputs, outputs), b (outputs,), Y (rows, outputs).

    Called on two outputs, X is their columns side by side, as `Concat` would put them, without the copy.
    activation: None, "relu", "tanh" or "sigmoid". W starts uniform in +-sqrt(6 / inputs) before a ReLU (He) and
    +-sqrt(6 / (inputs + outputs)) otherwise (Glorot), b at zero.
    """

    dtype = LINEAR_DTYPE
    input_count = None

    def __init__(self, inputs, outputs, activation=None, name=None):
        super().__init__(name)
        self.input_width, self.output_width = positive(inputs, "Linear: inputs"), positive(outputs, "Linear: outputs")
        if activation not in CODES:
            known = ", ".join(str(c) for c in CODES)
            raise GraphError(f"Linear: unknown activation {activation!r}; known: {known}")
        self.activation, self.part_widths = activation, None
        initial = uniform(math.sqrt(6 / inputs)) if activation == "relu" else glorot(inputs, outputs)
        self.parameters = {"weight": Parameter((inputs, outputs), initial),
                           "bias": Parameter((outputs,), zeros)}

    def output_widths(self, widths):
        if len(widths) > 2:
            raise GraphError(f"'{self.name}' takes 1 or 2 inputs, got {len(widths)}: put a Concat before it")
        if sum(widths) != self.input_width:
            raise GraphError(f"'{self.name}' takes {shape(self.input_width)} but is fed {' and '.join(map(shape, widths))}")
        self.part_widths, self.transparent = widths, len(widths) == 1
        return [self.output_width]

    def fill(self, record, graph):
        weight, bias = self.parameters["weight"], self.parameters["bias"]
        record["out_width"] = self.output_width
        record["bias"], record["bias_gradient"] = bias.value.ctypes.data, bias.gradient.ctypes.data
        record["activation"] = CODES[self.activation]
        ends = np.cumsum(self.part_widths)
        parts = [(weight.value[end - width:end], weight.gradient[end - width:end])
                 for width, end in zip(self.part_widths, ends, strict=True)]
        return [fill_ports(record, self, self.part_widths, [0] * len(parts)),
                fill_maps(record, parts, [0] * len(parts))]

    def cost(self):
        return 2 * self.input_width * self.output_width

    def backward_cost(self):
        carriers = self.graph.carriers()
        wanted = sum(width for width, source in zip(self.part_widths, self.inputs, strict=True) if source.node in carriers)
        return self.cost() + 2 * wanted * self.output_width


@operation
def forward(worker, node, batch, count):
    """Y = f(X W + b); keeps X, and Y where the activation needs it."""
    self = LINEAR(node)
    results, firsts, seconds = scratch(worker, 2, count), scratch(worker, 4, count), scratch(worker, 5, count)
    found, total = 0, 0
    for message in messages(batch, count):
        status, first, second = join_inputs(worker, node, message)
        if status == WAITING:
            continue
        if status != DONE:
            return blame(worker, message, status)
        firsts[found], seconds[found] = first, second
        found += 1
        total += MESSAGE(message).rows
    x_rows, y_rows = scratch(worker, 0, 2 * total + 1), scratch(worker, 1, total + 1)
    at = 0
    for i in range(found):
        first = firsts[i]
        results[i] = emit(worker, node, 0, first, MESSAGE(first).rows, self.out_width)
        list_rows(x_rows, at, first)
        if self.map_count == 2:
            list_rows(x_rows, total + at, seconds[i])
        at = list_rows(y_rows, at, results[i])
    for number in range(self.map_count):
        multiply(self.maps + SIZE * number, x_rows[number * total:], y_rows, total, number)
    bias, training = vector(self.bias, self.out_width), is_training(worker)
    for i in range(found):
        first, second, result = firsts[i], seconds[i], results[i]
        y = payload(result)
        add_bias_activate(self.activation, y, bias)
        if training:
            if first != second:
                MESSAGE(first).next = second
            if self.activation != NONE:
                copy = new_block(worker, y.shape[0], y.shape[1], first)
                copy_values(copy, result)
                MESSAGE(second).next = copy
            if not keep(worker, node, first, self.version):
                return blame(worker, first, SAME_STATE)
        else:
            if first != second:
                release(worker, second)
            release(worker, first)
        send(worker, result)
    return DONE


@operation
def backward(worker, node, batch, count):
    """D = dY * f'(Y); dX = D W^T; db += sum of D's rows; dW += X^T D, held back until there are rows enough."""
    self = LINEAR(node)
    if not is_training(worker):   # only with two inputs: receipts pass by a node with one
        for message in messages(batch, count):
            for number in range(self.map_count):
                send(worker, answer(worker, node, number, message, 0, 0))
            release(worker, message)
        return DONE
    total = count_rows(batch, count)
    d_rows, dx_rows, x_rows = scratch(worker, 0, total), scratch(worker, 1, 2 * total + 1), scratch(worker, 2, 2 * total + 1)
    bias_gradient = vector(self.bias_gradient, self.out_width)
    at, chain = 0, 0
    for message in messages(batch, count):
        m, first = MESSAGE(message), take(node, message)
        if first == 0 or MESSAGE(first).version == WAITING:
            return blame(worker, message, NO_ACTIVATION)
        second = MESSAGE(first).next if self.map_count == 2 else first
        rows = np.int64(m.rows)
        if m.cols != self.out_width or m.rows != MESSAGE(first).rows:
            return blame(worker, message, WRONG_SHAPE)
        if self.activation != NONE:
            y = MESSAGE(second).next
            activate_backward(self.activation, values(y), values(message))
            release(worker, y)
        add_bias_gradient(payload(message), bias_gradient)
        note_staleness(node, first)
        list_rows(d_rows, at, message)
        for number in range(self.map_count):
            list_rows(x_rows, number * total + at, first if number == 0 else second)
            dx = answer_port(worker, node, number, message, rows)
            list_rows(dx_rows, number * total + at, dx)   # a receipt has none
            send(worker, dx)
        at += rows
        MESSAGE(second).next = message
        m.next = chain
        chain = first
    for number in range(self.map_count):
        if PORT(self.ports + PORT_SIZE * number).wanted != 0:
            multiply_back(self.maps + SIZE * number, d_rows, dx_rows[number * total:], total, 0)
    hold(worker, node, x_rows, d_rows, 0, total)
    release_chain(worker, chain)
    return DONE


Linear.forward, Linear.backward, Linear.settle = forward, backward, held.settle
Linear.renew, Linear.refresh = held.renew, held.refresh
Linear.helpers = affine.HELPERS

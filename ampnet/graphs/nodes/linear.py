"""Linear: Y = f(X W + b), with an optional activation f; X may come in two parts.

The rows of all messages of a call are multiplied where they lie; results go straight into the next messages. Two parts are
joined by the whole state and each is multiplied by its rows of W, as if they had been put side by side; a second part that is
known to be zeros, as it came without columns, is left out. Of an RNN the first part of every step, a token's, is there from the
start: a few such that wait are multiplied together, early, and their gradients late, once there are some (runtime/late.py). The
weight gradient waits until a few dozen rows are there, or until the update, and is then one product an input.
"""

import math

import numpy as np

from ...errors import GraphError
from ...kernels.activations import CODES, NONE, RELU, activate_backward, add_bias_activate
from ...kernels.relu import bias_relu, bits_length, relu_backward
from ...kernels.rows import sum_rows_at
from ...runtime.late import give_or_remember, put_off, take_late
from ...runtime.memory import helper, octet_matrix, record, vector
from ...runtime.message import (
    DONE,
    MESSAGE,
    NO_ACTIVATION,
    PAYLOAD,
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
from ...runtime.policy import ENOUGH
from ...runtime.table import take
from ..parameters import Parameter, uniform, zeros
from . import affine, held
from .affine import (
    PORT,
    PORT_SIZE,
    SIZE,
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

EARLY_ROWS = 24   # first parts are multiplied early as long as there are not more rows

LINEAR_DTYPE = affine_node(
    "bias", "bias_gradient", "activation",
    "zero_row")   # a row of X for parts without columns
LINEAR = record(LINEAR_DTYPE)


class Linear(Node):
    """Y = f(X W + b). X (rows, inputs), W (inputs, outputs), b (outputs,), Y (rows, outputs).

    Called on two outputs, X is their columns side by side, as `Concat` would put them, without the copy.
    activation: None, "relu", "tanh" or "sigmoid". W starts uniform in +-sqrt(6 / inputs) before a ReLU (He) and
    +-sqrt(6 / (inputs + outputs)) otherwise (Glorot), b at zero.
    """

    dtype = LINEAR_DTYPE
    input_count = None
    takes_empty = True

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
        zero_row = np.zeros(max(self.part_widths), np.float32)
        record["zero_row"] = zero_row.ctypes.data
        return [zero_row, fill_ports(record, self, self.part_widths, [0] * len(parts)),
                fill_maps(record, parts, [0] * len(parts))]

    def cost(self):
        return 2 * self.input_width * self.output_width

    def backward_cost(self):
        carriers = self.graph.carriers()
        wanted = sum(width for width, source in zip(self.part_widths, self.inputs, strict=True) if source.node in carriers)
        return self.cost() + 2 * wanted * self.output_width


@helper
def bits_of(kept):
    """View of the bits that a ReLU keeps, (rows, bytes)."""
    m = MESSAGE(kept)
    return octet_matrix(kept + PAYLOAD, m.rows, 4 * m.cols)


@helper
def list_x(table, at, message, zero_row):
    """List a part's rows of X from position `at` on; returns the next free one. A part without columns has zeros."""
    m = MESSAGE(message)
    if m.cols != 0:
        return list_rows(table, at, message)
    for r in range(m.rows):
        table[at + r] = zero_row
    return at + m.rows


@helper
def finish(worker, node, first, second, result, training):
    """Bias and activation of one result, which is sent; what backward needs of it hangs on the inputs."""
    self = LINEAR(node)
    y, bias, kept = payload(result), vector(self.bias, self.out_width), 0
    if training and self.activation == RELU:
        kept = new_block(worker, y.shape[0], bits_length(self.out_width), first)
        bias_relu(y, bias, bits_of(kept))
    else:
        add_bias_activate(self.activation, y, bias)
        if training and self.activation != NONE:
            kept = new_block(worker, y.shape[0], y.shape[1], first)
            copy_values(kept, result)
    if not training:
        release(worker, first)
        if second != first:
            release(worker, second)
    else:
        if second != first:
            MESSAGE(first).next = second
        if kept != 0:
            MESSAGE(second).next = kept
    send(worker, result)


@helper
def multiply_early(worker, node, parts, count, rows):
    """Multiply first parts that wait for their second ones; each product, which becomes a result, hangs on its part."""
    self = LINEAR(node)
    x_rows, y_rows, at = scratch(worker, 0, rows + 1), scratch(worker, 1, rows + 1), 0
    for i in range(count):
        part = parts[i]
        result = emit(worker, node, 0, part, MESSAGE(part).rows, self.out_width)
        MESSAGE(result).version = self.version
        MESSAGE(part).next = result
        list_x(x_rows, at, part, self.zero_row)
        at = list_rows(y_rows, at, result)
    multiply(self.maps, x_rows, y_rows, rows, 0)


@operation
def forward(worker, node, batch, count):
    """Y = f(X W + b); keeps X, and of Y what the activation needs."""
    self, training = LINEAR(node), is_training(worker)
    firsts, seconds, found, total = scratch(worker, 4, count), scratch(worker, 5, count), 0, 0
    parts, waiting, early = scratch(worker, 6, count), 0, 0
    for message in messages(batch, count):
        status, first, second = join_inputs(worker, node, message, training)
        if status == WAITING:
            if MESSAGE(message).port == 0:
                parts[waiting] = message
                waiting += 1
                early += MESSAGE(message).rows
            continue
        if status != DONE:
            return blame(worker, message, status)
        firsts[found], seconds[found] = first, second
        found += 1
        total += MESSAGE(message).rows
    if waiting > 1 and early <= EARLY_ROWS:
        multiply_early(worker, node, parts, waiting, early)
    x_rows, y_rows, results = scratch(worker, 0, 2 * total + 1), scratch(worker, 1, 2 * total + 1), scratch(worker, 2, count)
    rows, others = 0, 0   # others: rows of second parts that have columns
    for i in range(found):
        first, second = firsts[i], seconds[i]
        result = MESSAGE(first).next
        is_made = result != 0 and MESSAGE(result).version == self.version   # else the weights have changed since
        if result == 0:
            result = emit(worker, node, 0, first, MESSAGE(first).rows, self.out_width)
        if not is_made:
            list_x(x_rows, rows, first, self.zero_row)
            rows = list_rows(y_rows, rows, result)
        results[i] = result
        if second != first and MESSAGE(second).cols != 0:
            list_rows(x_rows, total + others, second)
            others = list_rows(y_rows, total + others, result) - total
    if rows > 0:
        multiply(self.maps, x_rows, y_rows, rows, 0)
    if others > 0:
        multiply(self.maps + SIZE, x_rows[total:], y_rows[total:], others, 1)
    for i in range(found):
        finish(worker, node, firsts[i], seconds[i], results[i], training)
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
    d_rows, dx_rows = scratch(worker, 0, 2 * total + 1), scratch(worker, 1, 2 * total + 1)
    x_rows = scratch(worker, 2, 2 * total + 1)
    at, others, chain = 0, 0, 0
    can_wait = self.map_count == 2 and total < ENOUGH and PORT(self.ports).wanted != 0
    for message in messages(batch, count):
        m, first = MESSAGE(message), take(node, message)
        if first == 0 or MESSAGE(first).version == WAITING:
            return blame(worker, message, NO_ACTIVATION)
        second = MESSAGE(first).next if self.map_count == 2 else first
        rows = np.int64(m.rows)
        if m.cols != self.out_width or m.rows != MESSAGE(first).rows:
            return blame(worker, message, WRONG_SHAPE)
        if self.activation != NONE:
            kept = MESSAGE(second).next
            if self.activation == RELU:
                relu_backward(bits_of(kept), payload(message))
            else:
                activate_backward(self.activation, values(kept), values(message))
            release(worker, kept)
        note_staleness(node, first)
        list_rows(d_rows, at, message)
        list_x(x_rows, at, first, self.zero_row)
        if not can_wait:
            dx = answer_port(worker, node, 0, message, rows)
            list_rows(dx_rows, at, dx)   # a receipt has none
            send(worker, dx)
        if second != first:
            list_x(x_rows, total + at, second, self.zero_row)
            is_wanted = MESSAGE(second).cols != 0
            dx = answer_port(worker, node, 1, message, rows) if is_wanted else answer(worker, node, 1, message, 0, 0)
            list_rows(dx_rows, total + others, dx)
            if is_wanted:
                others = list_rows(d_rows, total + others, message) - total
            send(worker, dx)
        at += rows
        if can_wait:
            put_off(node, message)
            MESSAGE(second).next = chain
        else:
            MESSAGE(second).next = message
            m.next = chain
        chain = first
    if PORT(self.ports).wanted != 0 and not can_wait:
        multiply_back(self.maps, d_rows, dx_rows, total, 0)
    if others > 0 and PORT(self.ports + PORT_SIZE).wanted != 0:
        multiply_back(self.maps + SIZE, d_rows[total:], dx_rows[total:], others, 0)
    sum_rows_at(d_rows, total, vector(self.bias_gradient, self.out_width))
    hold(worker, node, x_rows, d_rows, 0, total)
    release_chain(worker, chain)
    return give_or_remember(worker, node) if can_wait else DONE


@operation
def late(worker, node, batch, count):
    """dX of first parts: of an RNN those of its tokens, for which no step waits as it does for dh."""
    chain, rows = take_late(node)
    d_rows, dx_rows, at, message = scratch(worker, 0, rows + 1), scratch(worker, 1, rows + 1), 0, chain
    while message != 0:
        dx = answer_port(worker, node, 0, message, np.int64(MESSAGE(message).rows))
        list_rows(dx_rows, at, dx)
        at = list_rows(d_rows, at, message)
        send(worker, dx)
        message = MESSAGE(message).next
    multiply_back(LINEAR(node).maps, d_rows, dx_rows, rows, 0)
    release_chain(worker, chain)
    return DONE


Linear.forward, Linear.backward, Linear.settle, Linear.late = forward, backward, held.settle, late
Linear.renew, Linear.refresh = held.renew, held.refresh
Linear.helpers = affine.HELPERS

"""Recurrent cells: LSTMCell, TreeLSTMLeaf, TreeLSTMBranch and GRUCell.

A cell has one or two inputs, which it joins by the whole state, and a weight for each. One product an input gives the
pre-activations of all its gates, for all messages of a call, and one pass over them gives the cell's value.
"""

import numpy as np

from ...errors import GraphError
from ...kernels.gru import gru_backward, gru_forward
from ...kernels.lstm import lstm_backward, lstm_forward
from ...kernels.rows import copy_row, sum_rows_at
from ...runtime.memory import record, vector
from ...runtime.message import (
    DONE,
    MESSAGE,
    NO_ACTIVATION,
    PAYLOAD,
    WRONG_SHAPE,
    answer,
    blame,
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
)
from ...runtime.table import take
from ..parameters import Parameter
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

GRU = -1   # else `kind` is the number of forget gates of an LSTM

CELL_DTYPE = affine_node("bias", "bias_gradient", "kind", "gates", "block_width")
CELL = record(CELL_DTYPE)


class Cell(Node):
    """Base of cells. Subclasses say: `code`; and in units of `hidden`: `gates`, pre-activations; `products`, how many of them
    an input's product gives; `starts`, the first of these for each input; `block`, columns kept."""

    dtype = CELL_DTYPE
    code = gates = products = block = None
    starts = (0,)

    def __init__(self, widths, hidden, multiplied, names, name=None):
        """widths: payload columns of each input; multiplied: how many of them, from the left, its weight multiplies."""
        super().__init__(name)
        self.hidden, self.input_widths, self.input_count = hidden, widths, len(widths)
        self.transparent = len(widths) == 1
        for label, inputs in zip(names, multiplied, strict=True):
            self.parameters[label] = Parameter((inputs, self.products * hidden), glorot(inputs, hidden))
        self.parameters["bias"] = Parameter((self.gates * hidden,), self.initial_bias)

    def initial_bias(self, rng, size):
        """0, and 1 for forget gates, so that a new cell remembers (Gers et al. 2000)."""
        bias = np.zeros(size)
        bias[2 * self.hidden:(self.gates - 1) * self.hidden] = 1
        return bias

    def output_widths(self, widths):
        for port, (wanted, got) in enumerate(zip(self.input_widths, widths, strict=True)):
            if wanted != got:
                raise GraphError(f"'{self.name}' takes {shape(wanted)} as input {port} but is fed {shape(got)}")
        return [self.output_width]

    @property
    def output_width(self):
        return 2 * self.hidden

    def fill(self, record, graph):
        *weights, bias = self.parameters.values()
        record["kind"] = self.code
        record["gates"], record["block_width"] = self.gates * self.hidden, self.block * self.hidden
        record["out_width"] = self.output_width
        record["bias"], record["bias_gradient"] = bias.value.ctypes.data, bias.gradient.ctypes.data
        return [fill_ports(record, self, self.input_widths, [4 * start * self.hidden for start in self.starts]),
                fill_maps(record, [(w.value, w.gradient) for w in weights], self.starts)]

    def cost(self):
        *weights, _ = self.parameters.values()
        return sum(2 * w.rows * w.cols for w in weights)


class LSTMCell(Cell):
    """Long short-term memory: x (rows, inputs) and the cell's last value [h | c] (rows, 2 hidden) -> [h | c].

        i, o, f = sigmoid(x W + h U + b)   u = tanh(x W + h U + b)   c' = i u + f c   h' = o tanh(c')

    `weight` W (inputs, 4 hidden), `recurrent` U (hidden, 4 hidden), `bias` (4 hidden,), columns in the order i, o, f, u.
    Hochreiter and Schmidhuber 1997, with forget gates.
    """

    code, gates, products, block, starts = 1, 4, 4, 5, (0, 0)

    def __init__(self, inputs, hidden, name=None):
        positive(inputs, "LSTMCell: inputs")
        positive(hidden, "LSTMCell: hidden")
        super().__init__([inputs, 2 * hidden], hidden, [inputs, hidden], ["weight", "recurrent"], name)


class TreeLSTMLeaf(Cell):
    """The leaf of a Tree-LSTM: x (rows, inputs) -> [h | c] (rows, 2 hidden).

        i, o = sigmoid(x W + b)   u = tanh(x W + b)   c = i u   h = o tanh(c)

    `weight` W (inputs, 3 hidden), `bias` (3 hidden,), columns in the order i, o, u. Tai et al. 2015, without children.
    """

    code, gates, products, block = 0, 3, 3, 4

    def __init__(self, inputs, hidden, name=None):
        positive(inputs, "TreeLSTMLeaf: inputs")
        positive(hidden, "TreeLSTMLeaf: hidden")
        super().__init__([inputs], hidden, [inputs], ["weight"], name)


class TreeLSTMBranch(Cell):
    """The inner node of a binary Tree-LSTM: values of the left and the right child [h | c] (rows, 2 hidden) -> [h | c].

        i, o, f_l, f_r = sigmoid(h_l W_l + h_r W_r + b)   u = tanh(...)   c = i u + f_l c_l + f_r c_r   h = o tanh(c)

    `left` W_l and `right` W_r (hidden, 5 hidden), `bias` (5 hidden,), columns in the order i, o, f_l, f_r, u.
    Tai et al. 2015, equations 9-14, N = 2, without words at inner nodes.
    """

    code, gates, products, block, starts = 2, 5, 5, 6, (0, 0)

    def __init__(self, hidden, name=None):
        positive(hidden, "TreeLSTMBranch: hidden")
        super().__init__([2 * hidden, 2 * hidden], hidden, [hidden, hidden], ["left", "right"], name)


class GRUCell(Cell):
    """Gated recurrent unit, in the form of torch.nn.GRUCell: x (rows, inputs) and h (rows, hidden) -> h' (rows, hidden).

        r, z = sigmoid(x W + h U + b)   n = tanh(x W + b_n + r (h U + b_m))   h' = (1 - z) n + z h

    `weight` W (inputs, 3 hidden), columns in the order n, r, z; `recurrent` U (hidden, 3 hidden), in the order r, z, m;
    `bias` (4 hidden,), in the order n, r, z, m. Cho et al. 2014.
    """

    code, gates, products, block, starts = GRU, 4, 3, 4, (0, 1)

    def __init__(self, inputs, hidden, name=None):
        positive(inputs, "GRUCell: inputs")
        positive(hidden, "GRUCell: hidden")
        super().__init__([inputs, hidden], hidden, [inputs, hidden], ["weight", "recurrent"], name)

    def initial_bias(self, rng, size):
        return np.zeros(size)

    @property
    def output_width(self):
        return self.hidden


@operation
def forward(worker, node, batch, count):
    """Join the inputs, multiply all at once, then each its gates; keeps the inputs and the gates."""
    self = CELL(node)
    pairs, found, total, training = scratch(worker, 4, 2 * count), 0, 0, is_training(worker)
    for message in messages(batch, count):
        status, a, b = join_inputs(worker, node, message, training)
        if status == WAITING:
            continue
        if status != DONE:
            return blame(worker, message, status)
        pairs[2 * found], pairs[2 * found + 1] = a, b
        found += 1
        total += MESSAGE(message).rows
    x_rows, y_rows = scratch(worker, 0, 2 * total + 1), scratch(worker, 1, 2 * total + 1)
    made = scratch(worker, 5, 2 * found + 1)
    at = 0
    for i in range(found):
        a, b = pairs[2 * i], pairs[2 * i + 1]
        rows = np.int64(MESSAGE(a).rows)
        block = new_block(worker, rows, self.block_width, a)
        made[2 * i], made[2 * i + 1] = block, emit(worker, node, 0, a, rows, self.out_width)
        for r in range(rows):
            copy_row(self.bias, block + PAYLOAD + 4 * r * self.block_width, self.gates)
        for number in range(self.map_count):
            port = PORT(self.ports + PORT_SIZE * number)
            list_rows(x_rows, number * total + at, a if number == 0 else b)
            list_rows(y_rows, number * total + at, block, port.start)
        at += rows
    for number in range(self.map_count):
        multiply(self.maps + SIZE * number, x_rows[number * total:], y_rows[number * total:], total, 1)
    for i in range(found):
        a, b, block, result = pairs[2 * i], pairs[2 * i + 1], made[2 * i], made[2 * i + 1]
        if self.kind == GRU:
            gru_forward(payload(block), payload(b), payload(result))
        else:
            lstm_forward(payload(block), self.kind, payload(a if self.kind == 2 else b), payload(b), payload(result))
        if a != b:
            MESSAGE(a).next = b
        MESSAGE(b).next = block
        if not training:
            release(worker, block)
            if a != b:
                release(worker, b)
            release(worker, a)
        send(worker, result)
    return DONE


@operation
def backward(worker, node, batch, count):
    """Each its gates, then all products at once; in evaluation a receipt for every input."""
    self = CELL(node)
    if not is_training(worker):
        for message in messages(batch, count):
            for number in range(self.map_count):
                send(worker, answer(worker, node, number, message, 0, 0))
            release(worker, message)
        return DONE
    total = 0
    for message in messages(batch, count):
        total += MESSAGE(message).rows
    x_rows, d_rows = scratch(worker, 0, 2 * total + 1), scratch(worker, 1, 2 * total + 1)
    dx_rows = scratch(worker, 2, 2 * total + 1)
    at, chain = 0, 0
    for message in messages(batch, count):
        m, a = MESSAGE(message), take(node, message)
        if a == 0 or MESSAGE(a).version == WAITING:
            return blame(worker, message, NO_ACTIVATION)
        b = MESSAGE(a).next if self.map_count == 2 else a
        block, rows = MESSAGE(b).next, np.int64(m.rows)
        if m.cols != self.out_width or m.rows != MESSAGE(a).rows:
            return blame(worker, message, WRONG_SHAPE)
        note_staleness(node, a)
        da = answer_port(worker, node, 0, message, rows)
        db = answer_port(worker, node, 1, message, rows) if self.map_count == 2 else da
        gates = payload(block)
        if self.kind == GRU:
            gru_backward(gates, payload(b), payload(message), payload(db))
        elif self.kind == 2:
            lstm_backward(gates, 2, payload(a), payload(b), payload(message), payload(da), payload(db))
        else:
            lstm_backward(gates, self.kind, payload(b), payload(b), payload(message), payload(db), payload(db))
        for number in range(self.map_count):
            port = PORT(self.ports + PORT_SIZE * number)
            first = number * total + at
            list_rows(x_rows, first, a if number == 0 else b)
            list_rows(d_rows, first, block, port.start)
            if port.wanted != 0:
                list_rows(dx_rows, first, da if number == 0 else db)
        at += rows
        send(worker, da)
        if self.map_count == 2:
            send(worker, db)
        release(worker, message)
        MESSAGE(block).next = chain
        chain = a
    for number in range(self.map_count):
        first = number * total
        if PORT(self.ports + PORT_SIZE * number).wanted != 0:
            add = 1 if self.kind == GRU and number == 1 else 0   # d_h has its direct part already
            multiply_back(self.maps + SIZE * number, d_rows[first:], dx_rows[first:], total, add)
    sum_rows_at(d_rows, total, vector(self.bias_gradient, self.gates))   # of the first input they are whole rows
    hold(worker, node, x_rows, d_rows, total, total)
    release_chain(worker, chain)
    return DONE


Cell.forward, Cell.backward, Cell.settle = forward, backward, held.settle
Cell.renew, Cell.refresh = held.renew, held.refresh
Cell.helpers = affine.HELPERS

"""SumRows and GatedSum make one row of a whole matrix: the readout of a graph network."""

from ...errors import GraphError
from ...kernels.reductions import gated_sum, gated_sum_backward, sum_rows
from ...runtime.message import (
    DONE,
    MESSAGE,
    NO_ACTIVATION,
    SAME_STATE,
    WRONG_SHAPE,
    answer,
    blame,
    emit,
    is_training,
    messages,
    operation,
    pass_back,
    payload,
    release,
    send,
    values,
)
from ...runtime.table import keep, take
from .joining import WAITING, meet
from .node import Node, shape


class SumRows(Node):
    """Y (1, width) = sum over the rows of X (rows, width)."""

    transparent = True

    def output_widths(self, widths):
        return widths

    def cost(self):
        return self.outputs[0].width


class GatedSum(Node):
    """Y (1, width) = sum over rows of sigmoid(G) * X, for G and X (rows, width) with the same state.

    With G = i([h_T | x]) and X = j(h_T) the graph-level output of Li et al. 2016, equation 7, without its outer tanh.
    """

    input_count = 2

    def output_widths(self, widths):
        if widths[0] != widths[1]:
            raise GraphError(f"'{self.name}' takes two inputs of one shape but is fed {shape(widths[0])}, {shape(widths[1])}")
        return widths[:1]

    def cost(self):
        return 20 * self.outputs[0].width


@operation
def sum_forward(worker, node, batch, count):
    """Y = sum of X's rows; keeps how many there were."""
    for message in messages(batch, count):
        result = emit(worker, node, 0, message, 1, MESSAGE(message).cols)
        sum_rows(payload(message), values(result))
        if not is_training(worker):
            release(worker, message)
        elif not keep(worker, node, message, 0):
            return blame(worker, message, SAME_STATE)
        send(worker, result)
    return DONE


@operation
def sum_backward(worker, node, batch, count):
    """dX = dY in every row, written over X."""
    for message in messages(batch, count):
        x = take(node, message)
        if x == 0:
            return blame(worker, message, NO_ACTIVATION)
        if MESSAGE(message).rows != 1 or MESSAGE(message).cols != MESSAGE(x).cols:
            return blame(worker, message, WRONG_SHAPE)
        dx, d = payload(x), values(message)
        for r in range(dx.shape[0]):
            for j in range(dx.shape[1]):
                dx[r, j] = d[j]
        pass_back(worker, node, 0, x)
        release(worker, message)
    return DONE


@operation
def gated_forward(worker, node, batch, count):
    """Y = sum of sigmoid(G) X; keeps both, G as its sigmoid."""
    training = is_training(worker)
    for message in messages(batch, count):
        other = meet(node, message, training)
        if other < 0:
            return blame(worker, message, SAME_STATE)
        if other == 0:
            continue
        gate, x = (message, other) if MESSAGE(message).port == 0 else (other, message)
        g, m = MESSAGE(gate), MESSAGE(x)
        if g.rows != m.rows or g.cols != m.cols:
            return blame(worker, message, WRONG_SHAPE)
        result = emit(worker, node, 0, x, 1, m.cols)
        gated_sum(payload(gate), payload(x), values(result))
        if training:
            g.next = x
        else:
            release(worker, gate)
            release(worker, x)
        send(worker, result)
    return DONE


@operation
def gated_backward(worker, node, batch, count):
    """Gradients for both, written over G and X; in evaluation two receipts."""
    for message in messages(batch, count):
        if not is_training(worker):
            send(worker, answer(worker, node, 0, message, 0, 0))
            pass_back(worker, node, 1, message)
            continue
        gate = take(node, message)
        if gate == 0 or MESSAGE(gate).version == WAITING:
            return blame(worker, message, NO_ACTIVATION)
        x, m = MESSAGE(gate).next, MESSAGE(message)
        if m.rows != 1 or m.cols != MESSAGE(x).cols:
            return blame(worker, message, WRONG_SHAPE)
        gated_sum_backward(payload(gate), payload(x), values(message))
        pass_back(worker, node, 0, gate)
        pass_back(worker, node, 1, x)
        release(worker, message)
    return DONE


SumRows.forward, SumRows.backward = sum_forward, sum_backward
GatedSum.forward, GatedSum.backward = gated_forward, gated_backward

"""Bcast: one message to several nodes, the sum of their gradients back."""

from ...errors import GraphError
from ...runtime.message import (
    DONE,
    MESSAGE,
    WRONG_SHAPE,
    blame,
    copy_values,
    emit,
    empty,
    messages,
    operation,
    pass_back,
    pass_on,
    release,
    send,
    values,
)
from ...runtime.records import NODE
from ...runtime.table import get, keep, take
from .node import Node


class Bcast(Node):
    """Y1 = Y2 = ... = X; dX = dY1 + dY2 + ... in the order of arrival."""

    def __init__(self, outputs=2, name=None):
        super().__init__(name)
        if not isinstance(outputs, int) or outputs < 2:
            raise GraphError(f"Bcast: outputs must be at least 2, got {outputs!r}")
        self.output_count = outputs

    def output_widths(self, widths):
        return widths * self.output_count

    def cost(self):
        return self.output_count * self.outputs[0].width


@operation
def forward(worker, node, batch, count):
    """A copy to every output; the message itself to the last."""
    last = NODE(node).outputs - 1
    for message in messages(batch, count):
        m = MESSAGE(message)
        for port in range(last):
            copy = emit(worker, node, port, message, m.rows, m.cols)
            copy_values(copy, message)
            send(worker, copy)
        pass_on(worker, node, last, message)
    return DONE


@operation
def backward(worker, node, batch, count):
    """Sum until one gradient from every output is there; `version` of the sum counts them."""
    for message in messages(batch, count):
        if NODE(node).input_gradient == 0:
            empty(message)
        total = get(node, message)
        if total == 0:
            keep(worker, node, message, 1)
            continue
        t, m = MESSAGE(total), MESSAGE(message)
        if t.rows != m.rows or t.cols != m.cols:
            return blame(worker, message, WRONG_SHAPE)
        a, b = values(total), values(message)
        for i in range(len(a)):
            a[i] += b[i]
        t.version += 1
        release(worker, message)
        if t.version == NODE(node).outputs:
            take(node, total)
            pass_back(worker, node, 0, total)
    return DONE


Bcast.forward, Bcast.backward = forward, backward

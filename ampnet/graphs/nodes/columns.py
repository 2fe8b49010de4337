"""Narrow keeps the first columns of a payload, Pad adds columns of zeros: each is the other's backward."""

from ...errors import GraphError
from ...runtime.memory import helper
from ...runtime.message import (
    DONE,
    MESSAGE,
    WRONG_SHAPE,
    answer,
    blame,
    emit,
    messages,
    operation,
    payload,
    release,
    send,
)
from ...runtime.records import NODE
from .node import Node, positive, shape


class Resize(Node):
    """What Narrow and Pad share; neither remembers anything."""

    transparent = True

    def __init__(self, width, name=None):
        super().__init__(name)
        self.width = positive(width, f"{self.kind}: width")

    def fill(self, record, graph):
        record["width"], record["out_width"] = self.inputs[0].width, self.width
        return []

    def cost(self):
        return self.width


class Narrow(Resize):
    """Y = the first `width` columns of X."""

    def output_widths(self, widths):
        if self.width > widths[0]:
            raise GraphError(f"'{self.name}' keeps {self.width} columns but is fed {shape(widths[0])}")
        return [self.width]


class Pad(Resize):
    """Y = [X | 0], `width` columns in all."""

    def output_widths(self, widths):
        if self.width < widths[0]:
            raise GraphError(f"'{self.name}' pads to {self.width} columns but is fed {shape(widths[0])}, which is wider")
        return [self.width]


@helper
def resized(source, target):
    """Copy what both have, and zeros for what only the target has."""
    x, y = payload(source), payload(target)
    for r in range(y.shape[0]):
        a, b = x[r], y[r]
        both = min(len(a), len(b))
        for j in range(both):
            b[j] = a[j]
        for j in range(both, len(b)):
            b[j] = 0


@operation
def forward(worker, node, batch, count):
    """Copy the columns that both have."""
    for message in messages(batch, count):
        m = MESSAGE(message)
        if m.cols != NODE(node).width:
            return blame(worker, message, WRONG_SHAPE)
        result = emit(worker, node, 0, message, m.rows, NODE(node).out_width)
        resized(message, result)
        send(worker, result)
        release(worker, message)
    return DONE


@operation
def backward(worker, node, batch, count):
    """The same the other way; a receipt where nobody wants the gradient."""
    for message in messages(batch, count):
        m = MESSAGE(message)
        if m.cols != NODE(node).out_width:
            return blame(worker, message, WRONG_SHAPE)
        wanted = NODE(node).input_gradient != 0
        result = answer(worker, node, 0, message, m.rows if wanted else 0, NODE(node).width if wanted else 0)
        resized(message, result)
        send(worker, result)
        release(worker, message)
    return DONE


Resize.forward, Resize.backward = forward, backward

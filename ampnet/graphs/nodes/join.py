"""Concat joins the payloads of messages with the same state side by side; Split cuts one payload into parts.

Each is the other's backward.
"""

from ...errors import GraphError
from ...runtime.atomics import load
from ...runtime.memory import allocate, helper, record
from ...runtime.message import (
    DONE,
    MESSAGE,
    SAME_STATE,
    WRONG_SHAPE,
    answer,
    blame,
    emit,
    empty,
    messages,
    operation,
    payload,
    release,
    release_chain,
    send,
)
from ...runtime.records import node_dtype
from .joining import gather_part
from .node import Node, positive, shape

JOIN_DTYPE = node_dtype("starts", "parts")
JOIN = record(JOIN_DTYPE)


class Join(Node):
    """What Concat and Split share: `starts`, the first column of each part, and the total width at the end."""

    dtype = JOIN_DTYPE

    def fill(self, record, graph):
        widths = [port.width for port in (self.inputs if isinstance(self, Concat) else self.outputs)]
        starts = allocate("i8", len(widths) + 1)
        starts[1:] = [sum(widths[:i + 1]) for i in range(len(widths))]
        record["starts"], record["parts"] = starts.ctypes.data, len(widths)
        return [starts]

    def cost(self):
        return sum(port.width for port in self.outputs)


class Concat(Join):
    """Y = [X1 | X2 | ...]: waits for one message from every input with the same state. All have the same rows."""

    input_count = None

    def output_widths(self, widths):
        if len(widths) < 2:
            raise GraphError(f"'{self.name}' joins at least 2 inputs, got {len(widths)}")
        return [sum(widths)]


class Split(Join):
    """Y1, Y2, ... = column blocks of X with the given widths."""

    def __init__(self, *widths, name=None):
        super().__init__(name)
        if len(widths) < 2:
            raise GraphError(f"Split: needs at least 2 widths, got {len(widths)}")
        self.widths = [positive(w, "Split: a width") for w in widths]

    def output_widths(self, widths):
        if sum(self.widths) != widths[0]:
            wanted = " + ".join(map(str, self.widths))
            raise GraphError(f"'{self.name}' cuts {shape(f'{wanted} = {sum(self.widths)}')} but is fed {shape(widths[0])}")
        return self.widths


@helper
def paste(node, whole, part):
    """Copy a part to its columns of the whole; False when the shapes do not fit."""
    p = MESSAGE(part)
    starts = JOIN(node).starts + 8 * p.port
    start, width = load(starts), load(starts + 8) - load(starts)
    if p.rows != whole.shape[0] or p.cols != width:
        return False
    source = payload(part)
    for r in range(whole.shape[0]):
        for j in range(width):
            whole[r, start + j] = source[r, j]
    return True


@helper
def cut(node, port, whole, target):
    """Copy the columns of part `port` of the whole into the message `target`."""
    start, result = load(JOIN(node).starts + 8 * port), payload(target)
    for r in range(result.shape[0]):
        for j in range(result.shape[1]):
            result[r, j] = whole[r, start + j]


@helper
def join_parts(worker, node, message, is_forward):
    """One more part: when it is the last, send the whole on (or back). Parts without payload join to a receipt."""
    if not is_forward and JOIN(node).input_gradient == 0:
        empty(message)
    chain = gather_part(worker, node, message, JOIN(node).parts)
    if chain < 0:
        return blame(worker, message, SAME_STATE)
    if chain == 0:
        return DONE
    rows, cols = MESSAGE(message).rows, load(JOIN(node).starts + 8 * JOIN(node).parts)
    if MESSAGE(message).cols == 0:
        rows, cols = 0, 0
    if is_forward:
        whole = emit(worker, node, 0, message, rows, cols)
    else:
        whole = answer(worker, node, 0, message, rows, cols)
    part = chain
    while part != 0 and cols != 0:
        if not paste(node, payload(whole), part):
            return blame(worker, message, WRONG_SHAPE)
        part = MESSAGE(part).next
    release_chain(worker, chain)
    send(worker, whole)
    return DONE


@helper
def cut_parts(worker, node, message, is_forward):
    """Send every part of a message on (or back); a receipt is cut into receipts."""
    m, self = MESSAGE(message), JOIN(node)
    if m.cols != 0 and m.cols != load(self.starts + 8 * self.parts):
        return blame(worker, message, WRONG_SHAPE)
    for port in range(self.parts):
        starts = self.starts + 8 * port
        width = load(starts + 8) - load(starts) if m.cols != 0 else 0
        if is_forward:
            part = emit(worker, node, port, message, m.rows, width)
        else:
            part = answer(worker, node, port, message, m.rows, width)
        if width != 0:
            cut(node, port, payload(message), part)
        send(worker, part)
    release(worker, message)
    return DONE


@operation
def join_forward(worker, node, batch, count):
    """Y = [X1 | X2 | ...]."""
    for message in messages(batch, count):
        status = join_parts(worker, node, message, True)
        if status != DONE:
            return status
    return DONE


@operation
def cut_backward(worker, node, batch, count):
    """dX1, dX2, ... = column blocks of dY."""
    for message in messages(batch, count):
        status = cut_parts(worker, node, message, False)
        if status != DONE:
            return status
    return DONE


@operation
def cut_forward(worker, node, batch, count):
    """Y1, Y2, ... = column blocks of X."""
    for message in messages(batch, count):
        status = cut_parts(worker, node, message, True)
        if status != DONE:
            return status
    return DONE


@operation
def join_backward(worker, node, batch, count):
    """dX = [dY1 | dY2 | ...]."""
    for message in messages(batch, count):
        status = join_parts(worker, node, message, False)
        if status != DONE:
            return status
    return DONE


Concat.forward, Concat.backward = join_forward, cut_backward
Split.forward, Split.backward = cut_forward, join_backward

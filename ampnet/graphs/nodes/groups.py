"""Group, Ungroup and Flatmap: one message of many, and many of one. State functions say which belong together.

    member(s, i)   turns a group's state into that of its i-th member
    group(s)       turns a member's state into that of its group
    place(s)       of a member's state: which member it is, from 0
    size(s)        of a group's state: how many members it has

All of them may take the tables as a further argument. Group collects, Ungroup and Flatmap distribute; the backward of each
goes the other way.
"""

import numpy as np

from ...kernels.reductions import add_into
from ...runtime.memory import helper, record
from ...runtime.message import (
    DONE,
    MESSAGE,
    NO_ACTIVATION,
    NO_DATA,
    SAME_STATE,
    WRONG_SHAPE,
    answer,
    apply_state_function,
    blame,
    copy_values,
    emit,
    empty,
    is_training,
    messages,
    new_block,
    operation,
    pass_back,
    payload,
    release,
    release_chain,
    send,
    values,
)
from ...runtime.records import NODE, node_dtype
from ...runtime.table import get, put, take
from ..state import compile_function, try_function
from .node import Node

GROUP_DTYPE = node_dtype("member", "group", "place", "size")
GROUP = record(GROUP_DTYPE)


class Grouping(Node):
    """What the three share: their state functions."""

    dtype = GROUP_DTYPE

    def __init__(self, name=None, **functions):
        super().__init__(name)
        self.functions = functions

    def output_widths(self, widths):
        return widths

    def check_state(self, layout):
        for name, function in self.functions.items():
            try_function(function, layout, f"'{self.name}'", member=name == "member")

    def fill(self, record, graph):
        compiled = {name: compile_function(f, graph.layout, name == "member") for name, f in self.functions.items()}
        for name, function in compiled.items():
            record[name] = function.address
        return list(compiled.values())

    def cost(self):
        return self.outputs[0].width


class Group(Grouping):
    """Y (size, width) = the rows X (1, width) of all members of a group, in their places. Y has the group's state.

    Backward gives each member its row, with its own state.
    """

    def __init__(self, group, place, size, name=None):
        super().__init__(name, group=group, place=place, size=size)


class Ungroup(Grouping):
    """Row i of X (rows, width) becomes a message (1, width) with the state of member i.

    Backward waits for all members' gradients and stacks them.
    """

    def __init__(self, member, group, place, name=None):
        super().__init__(name, member=member, group=group, place=place)


class Flatmap(Grouping):
    """One message becomes `size` messages with the same payload and the states of its members.

    Backward waits for all members' gradients and sends back their sum, in the order in which they came, with the original
    state; where there are no members, zeros.
    """

    def __init__(self, member, group, size, name=None):
        super().__init__(name, member=member, group=group, size=size)


@helper
def set_aside(worker, message):
    """A block without payload that holds a message's state, slot, node and port."""
    block = new_block(worker, 0, 0, message)
    m, b = MESSAGE(message), MESSAGE(block)
    b.node, b.port, b.direction = m.node, m.port, m.direction
    return block


@operation
def group_forward(worker, node, batch, count):
    """Collect rows under the group's state: the whole matrix first, then a block for each member's state.

    `version` counts the rows still to come.
    """
    self = GROUP(node)
    for message in messages(batch, count):
        m = MESSAGE(message)
        if m.rows != 1:
            return blame(worker, message, WRONG_SHAPE)
        own = set_aside(worker, message)
        place = apply_state_function(worker, self.place, message)
        apply_state_function(worker, self.group, message)
        size = apply_state_function(worker, self.size, message)
        whole = get(node, message)
        if whole == 0:
            if size < 1:
                return blame(worker, own, NO_DATA)
            whole = emit(worker, node, 0, message, size, m.cols)
            MESSAGE(whole).version = size
            for r in range(size):
                payload(whole)[r, 0] = np.nan   # marks the rows that have not come
            put(node, message, whole)
        w = MESSAGE(whole)
        if w.cols == 0:
            return blame(worker, own, SAME_STATE)   # the group was complete already
        if w.cols != m.cols:
            return blame(worker, own, WRONG_SHAPE)
        if place < 0 or place >= w.rows:
            return blame(worker, own, NO_DATA)
        row, x = payload(whole)[place], values(message)
        if not np.isnan(row[0]):
            return blame(worker, own, SAME_STATE)
        for j in range(len(row)):
            row[j] = x[j]
        MESSAGE(own).rows = place   # without columns there is no payload that this could be wrong about
        MESSAGE(own).next = w.next
        w.next = own
        w.version -= 1
        release(worker, message)
        if w.version == 0:
            take(node, whole)
            put(node, whole, w.next)
            send(worker, whole)
    return DONE


@operation
def group_backward(worker, node, batch, count):
    """Each member its row of dY; the blocks of their states are the answers' pattern."""
    for message in messages(batch, count):
        member = take(node, message)
        if member == 0:
            return blame(worker, message, NO_ACTIVATION)
        m = MESSAGE(message)
        wanted = m.cols != 0 and NODE(node).input_gradient != 0
        first = member
        while member != 0:
            own = MESSAGE(member)
            result = answer(worker, node, 0, member, 1 if wanted else 0, m.cols if wanted else 0)
            if wanted:
                if own.rows >= m.rows:
                    return blame(worker, message, WRONG_SHAPE)
                d, row = values(result), payload(message)[own.rows]
                for j in range(len(d)):
                    d[j] = row[j]
            send(worker, result)
            member = own.next
        release_chain(worker, first)
        release(worker, message)
    return DONE


@operation
def ungroup_forward(worker, node, batch, count):
    """A message a row; remembers how many."""
    self = GROUP(node)
    for message in messages(batch, count):
        x = payload(message)
        if x.shape[0] == 0:
            empty_answer = answer(worker, node, 0, message, 0, MESSAGE(message).cols if is_training(worker) else 0)
            send(worker, empty_answer)
            release(worker, message)
            continue
        for r in range(x.shape[0]):
            row = emit(worker, node, 0, message, 1, x.shape[1])
            y = values(row)
            for j in range(len(y)):
                y[j] = x[r, j]
            apply_state_function(worker, self.member, row, r)
            send(worker, row)
        MESSAGE(message).version = x.shape[0]
        if not put(node, message, message):
            return blame(worker, message, SAME_STATE)
    return DONE


@operation
def ungroup_backward(worker, node, batch, count):
    """Stack the gradients over X, which is sent back when all are there."""
    self = GROUP(node)
    for message in messages(batch, count):
        m = MESSAGE(message)
        place = apply_state_function(worker, self.place, message)
        apply_state_function(worker, self.group, message)
        whole = get(node, message)
        if whole == 0:
            return blame(worker, message, NO_ACTIVATION)
        w = MESSAGE(whole)
        if m.cols == 0:
            w.cols = 0
        elif m.rows != 1 or m.cols != w.cols or place < 0 or place >= w.rows:
            return blame(worker, message, WRONG_SHAPE)
        else:
            row, d = payload(whole)[place], values(message)
            for j in range(len(row)):
                row[j] = d[j]
        w.version -= 1
        release(worker, message)
        if w.version == 0:
            take(node, whole)
            if w.cols == 0:
                empty(whole)
            pass_back(worker, node, 0, whole)
    return DONE


@operation
def flatmap_forward(worker, node, batch, count):
    """A copy for every member; what is kept counts those that have not answered, and will hold the sum."""
    self = GROUP(node)
    for message in messages(batch, count):
        m = MESSAGE(message)
        size = apply_state_function(worker, self.size, message)
        for i in range(size):
            copy = emit(worker, node, 0, message, m.rows, m.cols)
            copy_values(copy, message)
            apply_state_function(worker, self.member, copy, i)
            send(worker, copy)
        if not is_training(worker) or self.input_gradient == 0:
            empty(message)
        x = values(message)
        for j in range(len(x)):
            x[j] = 0
        if size <= 0:
            pass_back(worker, node, 0, message)
            continue
        m.version = size
        if not put(node, message, message):
            return blame(worker, message, SAME_STATE)
    return DONE


@operation
def flatmap_backward(worker, node, batch, count):
    """Add up; the last gradient sends the sum back."""
    self = GROUP(node)
    for message in messages(batch, count):
        m = MESSAGE(message)
        apply_state_function(worker, self.group, message)
        total = get(node, message)
        if total == 0:
            return blame(worker, message, NO_ACTIVATION)
        t = MESSAGE(total)
        if t.cols != 0 and m.cols != 0:
            if m.rows != t.rows or m.cols != t.cols:
                return blame(worker, message, WRONG_SHAPE)
            add_into(values(total), values(message))
        t.version -= 1
        release(worker, message)
        if t.version == 0:
            take(node, total)
            pass_back(worker, node, 0, total)
    return DONE


Group.forward, Group.backward = group_forward, group_backward
Ungroup.forward, Ungroup.backward = ungroup_forward, ungroup_backward
Flatmap.forward, Flatmap.backward = flatmap_forward, flatmap_backward

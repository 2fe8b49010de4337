"""Drives one node's operations by hand, message by message, so that a test decides every order."""

import numpy as np
from numba import njit

from ampnet.graphs import Machine
from ampnet.runtime.memory import matrix
from ampnet.runtime.message import MESSAGE, PAYLOAD, new_block, release


@njit
def _make(worker, blank, values, state, node, port, direction):
    block = new_block(worker, values.shape[0], values.shape[1], blank)
    m = MESSAGE(block)
    m.node, m.port, m.direction = node, port, direction
    for i in range(len(state)):
        m.state[i] = state[i]
    matrix(block + PAYLOAD, values.shape[0], values.shape[1])[:] = values
    return block


@njit
def _describe(message):
    m = MESSAGE(message)
    return m.next, m.node, m.port, m.direction, m.rows, m.cols


@njit
def _state(message, out):
    for i in range(8):
        out[i] = MESSAGE(message).state[i]


@njit
def _payload(message, rows, cols):
    return matrix(message + PAYLOAD, rows, cols).copy()


@njit
def _release(worker, message):
    release(worker, message)


class ByHand:
    """A machine of which only the node called "node" ever runs, on `instances`."""

    def __init__(self, graph, instances):
        self.machine = Machine(graph)
        self.machine.optimizer("sgd", 0.1)
        self.engine = self.machine.engine
        columns = [(instances.columns[n].values, instances.columns[n].offsets) for n in graph.columns]
        columns += [(instances.columns[n].integers(), instances.columns[n].offsets) for n in graph.tables]
        self.alive = self.engine._begin(columns, np.arange(len(instances)), None, True, 1, 0, 7)
        self.node = next(n for n in graph.nodes if n.name == "node")
        self.record = self.engine.nodes[self.node.number].record
        self.worker = self.engine._worker(0)
        for parameter in self.node.parameters.values():
            parameter.gradient[...] = 0

    def send(self, port, state, values, forward=True):
        """Give the node one message; returns what it sends: list of (port, forward, state, payload)."""
        return self.send_all([(port, state, values)], forward)

    def send_all(self, messages, forward=True):
        """The same for several messages, (port, state, values), in one call."""
        batch = np.zeros(len(messages), np.int64)
        for i, (port, state, values) in enumerate(messages):
            state = np.array([*state, *[0] * (8 - len(state))], np.int32)
            values, blank = np.ascontiguousarray(values, np.float32), int(self.engine.workers[0]["blank"])
            batch[i] = _make(self.worker, blank, values, state, self.node.number, port, not forward)
        operation = self.node.forward if forward else self.node.backward
        status = operation.ctypes(self.worker, self.record.ctypes.data, batch.ctypes.data, len(batch))
        assert status == 0, status
        if not forward and self.node.late is not None:
            assert self.node.late.ctypes(self.worker, self.record.ctypes.data, 0, 0) == 0
        return self._outbox()

    def _outbox(self):
        sent, w = [], self.engine.workers[0]
        message = int(w["outbox_first"])
        w["outbox_first"] = 0
        while message:
            following, node, port, direction, rows, cols = _describe(message)
            state = np.zeros(8, np.int32)
            _state(message, state)
            ports = self.node.inputs if direction else self.node.outputs
            mine = next(i for i, p in enumerate(ports) if self._other_end(p, direction) == (node, port))
            sent.append((mine, direction == 0, tuple(int(v) for v in state), _payload(message, rows, cols)))
            _release(self.worker, message)
            message = following
        return sent

    def _other_end(self, port, direction):
        """Where a message along a port of the node goes: (node, port) numbers."""
        return (port.node.number, port.port) if direction else (port.target[0].number, port.target[1])

    def take_gradients(self):
        """The parameters' gradients since the last call."""
        if self.node.settle is not None:
            self.node.settle.ctypes(self.worker, self.record.ctypes.data, 0, 0)
        taken = [p.gradient.copy() for p in self.node.parameters.values()]
        for p in self.node.parameters.values():
            p.gradient[...] = 0
        return taken

    def left_behind(self):
        """(states kept, blocks alive)."""
        return sum(self.engine.states_kept()), self.engine.blocks_alive()



"""Dropout: a mask that is a function of the run's key, the node and the state, so it does not depend on any schedule."""

import zlib

import numpy as np

from ...errors import GraphError
from ...kernels.dropout import drop, mix
from ...runtime.atomics import load
from ...runtime.memory import helper, record
from ...runtime.message import (
    DONE,
    MESSAGE,
    STATE,
    is_training,
    messages,
    operation,
    pass_back,
    pass_on,
    values,
)
from ...runtime.records import ENGINE, WORKER, node_dtype
from .node import Node

DROPOUT_DTYPE = node_dtype(("rate", np.float64), "stream")
DROPOUT = record(DROPOUT_DTYPE)


class Dropout(Node):
    """Y = X with every element zeroed with probability `rate` and the others divided by 1 - rate; Y = X in evaluation.

    The mask depends on the trainer's seed, the epoch, the node's name and the message's whole state, and on nothing else;
    backward draws it again. Srivastava et al. 2014.
    """

    dtype, transparent, roaming = DROPOUT_DTYPE, True, True

    def __init__(self, rate=0.5, name=None):
        super().__init__(name)
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate < 1:
            raise GraphError(f"Dropout: rate must be a number of at least 0 and below 1, got {rate!r}")
        self.rate = float(rate)

    def output_widths(self, widths):
        return widths

    @property
    def stream(self):
        """Tells the draws of this node from those of others."""
        return zlib.crc32(self.name.encode())

    def fill(self, record, graph):
        record["rate"], record["stream"] = self.rate, self.stream
        return []

    def cost(self):
        return 2 * self.outputs[0].width


@helper
def mask_key(key, stream, state):
    """A uint64 from the run's key, the node's stream and the four words at the address `state`."""
    h = mix(np.uint64(key) ^ mix(np.uint64(stream)))
    for i in range(4):
        h = mix(h ^ np.uint64(load(state + 8 * i)))
    return h


@helper
def drop_all(worker, node, batch, count):
    self, key = DROPOUT(node), ENGINE(WORKER(worker).engine).key
    if self.rate > 0 and is_training(worker):
        for message in messages(batch, count):
            if MESSAGE(message).cols > 0:
                drop(values(message), mask_key(key, self.stream, message + STATE), self.rate)


@operation
def forward(worker, node, batch, count):
    """In the message itself."""
    drop_all(worker, node, batch, count)
    for message in messages(batch, count):
        pass_on(worker, node, 0, message)
    return DONE


@operation
def backward(worker, node, batch, count):
    """The same mask on the gradient."""
    drop_all(worker, node, batch, count)
    for message in messages(batch, count):
        pass_back(worker, node, 0, message)
    return DONE


Dropout.forward, Dropout.backward = forward, backward

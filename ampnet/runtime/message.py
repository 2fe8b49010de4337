"""A message: one block with a header, a state and a payload; and what operations do with messages.

    bytes 0-31   header: next block, node and port it is for, direction, block size, slot, version, rows, cols
    bytes 32-63  state: eight int32, the first one `instance`
    bytes 64-    payload: rows x cols float32

A block has one owner and is freed by who consumes it. An operation gets its messages as a table of addresses and posts
new ones with `send`: they go to the worker's outbox, which the worker loop empties after the operation.
"""

from functools import cached_property

import numpy as np
from numba import cfunc, types

from .atomics import c_free, call_state_function, load, store
from .blocks import give_block, take_block
from .memory import (
    LINE,
    helper,
    integers,
    matrix,
    plain_memory,
    record,
    size_of,
    vector,
)
from .records import COLUMN, DELAYS, ENGINE, NODE, WORKER

STATE_FIELDS = 8
STATE = 32          # offset of the state
PAYLOAD = LINE      # offset of the payload
FORWARD, BACKWARD = 0, 1

# What an operation returns: 0, or why it failed.
DONE, NOT_FINITE, NO_ACTIVATION, WRONG_SHAPE, WRONG_ROUTE, SAME_STATE, NO_MEMORY, NO_DATA, NOT_AS_RECORDED, \
    TOO_LARGE = range(10)
USER_FAILURE = 100  # operations of users may return this or more

MESSAGE_DTYPE = np.dtype({
    "names": ["next", "node", "port", "direction", "size", "slot", "version", "rows", "cols", "state"],
    "formats": [np.int64, np.int32, np.int16, np.int8, np.int8, np.int32, np.int32, np.int32, np.int32,
                (np.int32, STATE_FIELDS)],
    "offsets": [0, 8, 12, 14, 15, 16, 20, 24, 28, STATE], "itemsize": PAYLOAD})
MESSAGE = record(MESSAGE_DTYPE)

OPERATION = types.int64(types.int64, types.int64, types.int64, types.int64)


class operation:
    """Decorator of a node's compiled functions: `operation(worker, node, batch, count) -> status`, addresses all.

    It is compiled when `address`, or `ctypes` to call it from Python, is first wanted, and that is before any worker starts: so
    a task compiles what its nodes use.
    """

    def __init__(self, function):
        self.function, self.__doc__ = function, function.__doc__

    @cached_property
    def _compiled(self):
        return cfunc(OPERATION, cache=True, nopython=True, error_model="numpy")(self.function)

    def compile(self):
        """Compile it, or load it if it is stored."""
        return self._compiled

    @property
    def is_new(self):
        """Whether it had to be compiled, as it was not stored."""
        return self._compiled.cache_hits == 0

    @property
    def address(self):
        return self._compiled.address

    @property
    def ctypes(self):
        return self._compiled.ctypes


@helper
def messages(batch, count):
    """The addresses of an operation's messages."""
    return integers(batch, count)


@helper
def payload(message):
    """View of the payload, (rows, cols) float32."""
    m = MESSAGE(message)
    return matrix(message + PAYLOAD, m.rows, m.cols)


@helper
def values(message):
    """View of the payload as one float32 vector of rows * cols."""
    m = MESSAGE(message)
    return vector(message + PAYLOAD, np.int64(m.rows) * m.cols)


@helper
def copy_values(target, source):
    """Copy the payload of `source` into that of `target`, which has the same shape."""
    a, b = values(target), values(source)
    for i in range(len(a)):
        a[i] = b[i]


@helper
def copy_state(target, source):
    """Give `target` the state, slot and version of `source` (message addresses)."""
    store(target + STATE, load(source + STATE))
    store(target + STATE + 8, load(source + STATE + 8))
    store(target + STATE + 16, load(source + STATE + 16))
    store(target + STATE + 24, load(source + STATE + 24))
    store(target + 16, load(source + 16))


@helper
def new_block(worker, rows, cols, source):
    """A block with room for rows x cols and the state of `source`; its payload is not initialised."""
    w = WORKER(worker)
    size = size_of(4 * rows * cols)
    block = take_block(w.heap, size)
    w.taken += 1
    m = MESSAGE(block)
    m.next = 0
    m.size = size
    m.rows = rows
    m.cols = cols
    copy_state(block, source)
    return block


@helper
def release(worker, block):
    """Free one block."""
    w = WORKER(worker)
    w.given += 1
    give_block(w.heap, block, np.int64(MESSAGE(block).size))


@helper
def release_chain(worker, block):
    """Free a block and all that hang on it by `next`."""
    while block != 0:
        following = MESSAGE(block).next
        release(worker, block)
        block = following


@helper
def address(message, node, port, direction):
    """Point a message at a node's port."""
    m = MESSAGE(message)
    m.node = node
    m.port = port
    m.direction = direction


@helper
def to_successor(node, port, message):
    """Point a message forward, along output `port` of `node`."""
    table = NODE(node).successors + 16 * port
    address(message, load(table), load(table + 8), FORWARD)


@helper
def to_predecessor(node, port, message):
    """Point a message backward, along input `port` of `node`."""
    table = NODE(node).predecessors + 16 * port
    address(message, load(table), load(table + 8), BACKWARD)


@helper
def emit(worker, node, port, source, rows, cols):
    """A new forward message of rows x cols along output `port`, with the state of `source`. Not sent yet."""
    block = new_block(worker, rows, cols, source)
    to_successor(node, port, block)
    return block


@helper
def answer(worker, node, port, source, rows, cols):
    """A new backward message of rows x cols along input `port`, with the state of `source`. Not sent yet."""
    block = new_block(worker, rows, cols, source)
    to_predecessor(node, port, block)
    return block


@helper
def send(worker, message):
    """Post a message that has been pointed somewhere; the worker loop delivers it after the operation."""
    w = WORKER(worker)
    MESSAGE(message).next = 0
    if w.outbox_first == 0:
        w.outbox_first = message
    else:
        MESSAGE(w.outbox_last).next = message
    w.outbox_last = message


@helper
def pass_on(worker, node, port, message):
    """Send a message itself forward, along output `port`."""
    to_successor(node, port, message)
    send(worker, message)


@helper
def pass_back(worker, node, port, message):
    """Send a message itself backward, along input `port`."""
    to_predecessor(node, port, message)
    send(worker, message)


@helper
def empty(message):
    """Turn a message into a receipt: its state without a payload."""
    m = MESSAGE(message)
    m.rows = 0
    m.cols = 0


@helper
def is_training(worker):
    """False in evaluation: keep nothing, and answer with receipts."""
    return ENGINE(WORKER(worker).engine).training != 0


@helper
def note_staleness(node, kept):
    """Count the updates the node has made since it kept a message, whose gradient has come now."""
    n = NODE(node)
    delay = n.version - MESSAGE(kept).version
    n.staleness += delay
    bucket = n.delays + 8 * min(delay, DELAYS - 1)
    store(bucket, load(bucket) + 1)


@helper
def blame(worker, message, status):
    """Name the message that made an operation fail; returns `status`, for the operation to return."""
    WORKER(worker).culprit = message
    return status


@helper
def count_rows(batch, count):
    """Rows of all messages of a batch."""
    total = 0
    for message in messages(batch, count):
        total += MESSAGE(message).rows
    return total


@helper
def scratch(worker, number, size):
    """Scratch table `number` (0-7) of at least `size` words, valid until the next call with that number."""
    pair = WORKER(worker).tables + 16 * number
    if load(pair + 8) < size:
        if load(pair) != 0:
            c_free(load(pair))
        capacity = 2 * size
        store(pair, plain_memory(8 * capacity))
        store(pair + 8, capacity)
    return integers(load(pair), size)


@helper
def list_rows(table, at, message, shift=0):
    """Write the addresses of a message's rows, `shift` bytes into each, from position `at` on; returns the next free one."""
    m = MESSAGE(message)
    row, step = message + PAYLOAD + shift, 4 * np.int64(m.cols)
    for r in range(m.rows):
        table[at + r] = row + r * step
    return at + m.rows


@helper
def instance_rows_of(worker, number, message):
    """First row and row count of a message's instance in data column `number`."""
    column = COLUMN(ENGINE(WORKER(worker).engine).columns + number * LINE)
    instance = np.int64(MESSAGE(message).state[0])
    first = load(column.offsets + 8 * instance)
    return first, load(column.offsets + 8 * instance + 8) - first


@helper
def instance_rows(worker, node, message):
    """The same in the node's data column."""
    return instance_rows_of(worker, NODE(node).column, message)


@helper
def apply_state_function(worker, function, message, member=0):
    """Call a state function on a message's state, which it may change; returns what it returns."""
    return call_state_function(function, message + STATE, ENGINE(WORKER(worker).engine).columns, member)


@helper
def column_row_of(worker, number, row):
    """View of one row of data column `number`, (width,) float32."""
    engine = ENGINE(WORKER(worker).engine)
    column = COLUMN(engine.columns + number * LINE)
    if engine.row_index != 0:
        row = load(engine.row_index + 8 * row)
    return vector(column.values + 4 * row * column.width, column.width)


@helper
def column_row(worker, node, row):
    """The same in the node's data column."""
    return column_row_of(worker, NODE(node).column, row)

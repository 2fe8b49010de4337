"""The records that compiled code shares with Python: engine, worker, node, parameter, optimizer, column.

Fields are int64 unless a dtype is given; a field that holds an address says what it points to.
"""

import numpy as np

from .memory import layout, record

ENGINE_DTYPE = layout(
    "nodes",             # table of node addresses
    "node_count",
    "workers",           # table of worker addresses
    "worker_count",
    "sources",           # table of the node numbers of sources
    "source_count",
    "columns",           # COLUMN records of the data of this run
    "row_index",         # permutation of the rows of all columns, or 0
    "order", "total",    # table of the instances of this run, and how many
    "next",              # atomic: position of the next instance to start
    "lane_count",        # slot s is of lane s % lane_count
    "instances_before",  # training instances of earlier runs (learning-rate schedule)
    "pending",           # one line a slot: messages of the instance there that have not come home
    "slot_total",
    "fills",             # for each state field: column whose row count fills it, or -1
    "training",
    "key",               # of this run's random draws (dropout)
    "max_batch",         # rows an operation may take at once
    "max_messages",      # messages an operation may take at once
    "optimizer",         # OPTIMIZER record
    "retired",           # atomic: instances that came home
    "stop",              # atomic: not 0 when all workers shall leave
    "failed",            # atomic: claimed by the first failure, which then fills the fields below
    "failed_node", "failed_direction", "failed_status", "failed_version",
    ("failed_state", (np.int32, 8)),
    lines=("next", "retired", "stop", "failed"))

WORKER_DTYPE = layout(
    "number",
    "engine",
    "queues",            # QUEUE records, one a producer; where there is no log all send to the first
    "lists",             # WAITING records, backward lists of all nodes, then forward lists
    "heap",              # HEAP record: its blocks
    "outbox_first", "outbox_last",
    "late",              # the first node that has put off answers, or 0
    "slots",             # table: slots whose instance came home and that can start another
    "slot_count",
    "batch",             # table of the message addresses of the current operation
    "tables",            # scratch tables: (address, capacity) pairs
    "received",          # messages received: one count an input port, then one an output port
    "calls", "rows",     # tables: per waiting list, operations called and rows they took
    "taken", "given",    # blocks taken from and given to memory
    "idle_nanoseconds",
    "asleep",            # 1 while the worker has had nothing to do for long
    "blank",             # scratch header for starting instances
    "recent",            # header with the state of the last message of the current operation
    "culprit",           # message an operation blames for its failure
    ("step_scale", np.float64), ("step_rate", np.float64), "step_number",   # of the update under way
    "trace",             # TRACE record, or 0
    "log",               # LOG record, or 0
)

NODE_FIELDS = (
    "number",
    "worker",            # where the node lives; -1: on whichever worker a message is (it has no memory of its own)
    "immediate",         # called on arrival, one message at a time: it only looks at the state
    "transparent",       # one input, one output: in evaluation its receipts pass it by
    "forward", "backward",  # addresses of operations
    "settle", "refresh",    # operations before and after an update, or 0
    "renew",                # operation that updates a parameter, if it is one the node updates itself; or 0
    "late",              # operation that sends the answers a node has put off, or 0
    "late_first", "late_last", "late_rows",   # gradients whose answers it has put off
    "late_next", "is_late",   # the next such node of its worker; whether it is among them
    "inputs", "outputs",
    "predecessors",      # table of (node, port), one an input
    "successors",        # table of (node, port), one an output
    "first_input", "first_output",  # numbers of its first ports among those of all nodes
    "input_gradient",    # 0 where nobody before this node has parameters
    "function", "inverse",  # state functions, or 0
    "parameters",        # table of PARAMETER addresses
    "parameter_count",
    "min_update_frequency",
    "gathered",          # gradients since the last update
    "version",           # updates so far
    "failed_parameter",  # number of the one because of which an update failed, or -1
    "staleness",         # sum over gradients of the updates between forward and backward
    "delays",            # table of DELAYS counts: gradients with 0, 1, 2, ... updates between; the last: with as many or more
    "gradients",         # gradients so far in this run
    "entries", "mask", "used",  # table keyed by state
    "held_rows",         # rows put aside for a weight gradient
    "column", "index_field",  # data column and the state field that numbers its rows (-1: none)
    "width", "out_width",
    ("loss", np.float64), ("error", np.float64), "correct", "targets",
    "predictions",       # where a loss writes its predictions, a row for each target row of the data; or 0
)
NODE_DTYPE = layout(*NODE_FIELDS)
DELAYS = 33


def node_dtype(*fields):
    """The record of a node kind: the common fields, then its own."""
    return layout(*NODE_FIELDS, *fields)


PARAMETER_DTYPE = layout(
    "value", "gradient", "first", "second",  # float32 arrays; the last two are the optimizer's
    "rows", "cols",
    "touched", "marks", "touched_count",     # row-sparse: list of the rows with gradients, a mark a row; 0: dense
)

OPTIMIZER_DTYPE = layout(
    "code", "schedule", "total", "warmup", "step_every",
    *((name, np.float64) for name in ("rate", "beta1", "beta2", "epsilon", "decay", "clip", "step_factor")))

COLUMN_DTYPE = layout("values", "width", "offsets")
WAITING_DTYPE = layout(
    "first", "last", "messages", "rows",
    "in_loop")           # 1: a message can come back to the node it waits for
TRACE_DTYPE = layout("events", "capacity", "count")
LOG_DTYPE = layout(
    "mode",              # RECORD or REPEAT
    "bytes", "size", "capacity",
    "at",                # where a repeating worker reads on
    "is_unfit",          # 1: what is to be done cannot be done
)

ENGINE, WORKER, NODE, PARAMETER = map(record, (ENGINE_DTYPE, WORKER_DTYPE, NODE_DTYPE, PARAMETER_DTYPE))
OPTIMIZER, COLUMN, WAITING, TRACE = map(record, (OPTIMIZER_DTYPE, COLUMN_DTYPE, WAITING_DTYPE, TRACE_DTYPE))
LOG = record(LOG_DTYPE)


def offset(dtype, field):
    """Byte offset of a field, for atomic access to it."""
    return dtype.fields[field][1]

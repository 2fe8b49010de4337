"""The engine: Python's side of the machine. It lays out the records, starts the workers, watches, and cleans up.

Workers are Python threads, each inside one nogil call for the whole run. They are always joined on the way out; the first
failure wins and is raised in the caller.
"""

import sys
import threading
import time
from dataclasses import dataclass, field

import numpy as np

from ..errors import DivergenceError, OperationError
from . import message as m
from .blocks import HEAP_DTYPE
from .cleanup import clear_node, clear_worker
from .crew import Crew
from .logs import OrderLogs
from .loops import in_loops
from .memory import LINE, allocate
from .queue import QUEUE_BYTES, QUEUE_DTYPE
from .records import (
    COLUMN_DTYPE,
    DELAYS,
    ENGINE_DTYPE,
    OPTIMIZER_DTYPE,
    TRACE_DTYPE,
    WAITING_DTYPE,
    WORKER_DTYPE,
)
from .update import update
from .worker import EVENT_WORDS, UPDATE_OPERATION, run_worker

OPERATIONS = (clear_worker, run_worker, update, clear_node)   # what runs whatever the nodes are
POLL_SECONDS = 0.05
STALLED_POLLS = 10    # so many polls without any message and without any worker awake: the run will never end
REASONS = {
    m.NOT_FINITE: "a loss or gradient is not finite",
    m.NO_ACTIVATION: "a gradient came for a state that was never seen forward",
    m.WRONG_SHAPE: "a message has a shape this node does not take",
    m.WRONG_ROUTE: "the state function named an output that does not exist",
    m.SAME_STATE: "two messages with the same state came to one input",
    m.NO_MEMORY: "no memory",
    m.NO_DATA: "the data has no row for this state",
    m.NOT_AS_RECORDED: "the recorded order does not fit this run",
    m.TOO_LARGE: "weights have grown beyond all use (a root mean square of 10,000)",
}


@dataclass
class NodeSpec:
    """What the engine needs to know of a node: its record, and where its ports lead."""

    name: str
    record: np.ndarray                    # one record of a `node_dtype`
    predecessors: list[tuple[int, int]]   # an output (node, port) for each input
    successors: list[tuple[int, int]]     # an input (node, port) for each output
    is_source: bool = False
    refresh: object = None                # callable of the node's refresh operation
    parameters: tuple[str, ...] = ()      # their names
    alive: tuple = ()                     # what the record points to


@dataclass
class Run:
    """What one run counted. Arrays are indexed by node, or by port in the order of the nodes."""

    seconds: float
    instances: int
    received_forward: np.ndarray    # by input port
    received_backward: np.ndarray   # by output port
    calls: np.ndarray               # (2, nodes): backward, forward
    rows: np.ndarray                # (2, nodes)
    busy: list[float]               # share of the time each worker worked
    loss: np.ndarray
    error: np.ndarray
    correct: np.ndarray
    targets: np.ndarray
    gradients: np.ndarray
    staleness: np.ndarray           # mean updates between forward and backward, a node
    delays: np.ndarray              # (nodes, DELAYS): gradients with 0, 1, 2, ... updates between; the last: as many or more
    updates: np.ndarray             # since the engine was made, a node
    events: list[np.ndarray] = field(default_factory=list)  # a worker each, rows of EVENT_WORDS, see `worker.note`
    predictions: dict[str, np.ndarray] = field(default_factory=dict)  # by loss, where they were wanted
    order: list[np.ndarray] = field(default_factory=list)   # a worker each, uint8: the log of a recorded run, see `order`

    @property
    def messages(self) -> int:
        return int(self.received_forward.sum() + self.received_backward.sum())

    @property
    def mean_rows(self) -> float:
        """Rows an operation call, over the calls that took any."""
        return float(self.rows.sum() / max(1, self.calls.sum()))


class _Memory:
    """Keeps the arrays alive whose addresses are in records."""

    def __init__(self):
        self.arrays = []

    def address(self, array):
        self.arrays.append(array)
        return array.ctypes.data

    def words(self, values):
        return self.address(np.array(values, np.int64))

    def zeros(self, count):
        return self.address(allocate(np.int64, max(1, count)))


class Engine:
    """Runs instances through nodes on workers.

    nodes: in the order of their numbers; workers: how many threads; fills: for each of the eight state fields the column
    whose row count fills it, or -1; max_batch: rows an operation may take at once; coalesce=False gives the paper's
    one-message-at-a-time behaviour; trace: events to keep a worker and run (0: none); lanes: an instance that starts
    in slot s is of lane s % lanes, to whose nodes its sources send it; lane l starts on worker l % workers.
    """

    def __init__(self, nodes, workers=1, fills=(-1,) * m.STATE_FIELDS, max_batch=128, coalesce=True, trace=0, lanes=1):
        self.nodes, self.worker_count, self.lanes = nodes, workers, lanes
        self._compiled = [operation.ctypes for operation in OPERATIONS]   # now, not in the midst of a run
        self.memory = _Memory()
        self.inputs = sum(len(n.predecessors) for n in nodes)
        self.ports = self.inputs + sum(len(n.successors) for n in nodes)
        self.optimizer = allocate(OPTIMIZER_DTYPE)
        self.engine = self._lay_out_engine(fills, max_batch, max_batch if coalesce else 1)
        self._wire_nodes()
        self.workers = allocate(WORKER_DTYPE, workers)
        self.traces = [np.zeros((max(1, trace), EVENT_WORDS), np.int64) for _ in range(workers)]
        self.trace_heads = allocate(TRACE_DTYPE, workers)
        self.logs = OrderLogs(workers)
        for number in range(workers):
            self._lay_out_worker(number, max_batch, trace)
        self.engine["workers"] = self.memory.words([self._worker(i) for i in range(workers)])
        self._clear_workers()
        self._in_use = threading.Lock()

    def _lay_out_engine(self, fills, max_batch, max_messages):
        engine = allocate(ENGINE_DTYPE)
        engine["nodes"] = self.memory.words([n.record.ctypes.data for n in self.nodes])
        engine["node_count"] = len(self.nodes)
        sources = [i for i, n in enumerate(self.nodes) if n.is_source]
        engine["sources"], engine["source_count"] = self.memory.words(sources), len(sources)
        engine["fills"] = self.memory.words(fills)
        engine["max_batch"], engine["max_messages"] = max_batch, max_messages
        engine["optimizer"] = self.optimizer.ctypes.data
        engine["worker_count"] = self.worker_count
        return engine

    def _wire_nodes(self):
        first_input, first_output = 0, self.inputs
        self.delays = np.zeros((len(self.nodes), DELAYS), np.int64)
        self.in_loop = in_loops([[number for number, _ in node.successors] for node in self.nodes])
        for number, node in enumerate(self.nodes):
            r = node.record
            r["number"], r["delays"] = number, self.delays[number].ctypes.data
            r["inputs"], r["outputs"] = len(node.predecessors), len(node.successors)
            r["predecessors"] = self.memory.words(node.predecessors or [(0, 0)])
            r["successors"] = self.memory.words(node.successors or [(0, 0)])
            r["first_input"], r["first_output"] = first_input, first_output
            first_input += len(node.predecessors)
            first_output += len(node.successors)

    def _lay_out_worker(self, number, max_batch, trace):
        w, memory, count = self.workers[number], self.memory, len(self.nodes)
        w["number"], w["engine"] = number, self.engine.ctypes.data
        w["queues"] = memory.address(allocate(QUEUE_DTYPE, self.worker_count))
        # One line a waiting list, and behind them the ready rows of all side by side, for the policy.
        lists = allocate(np.uint8, (LINE + 8) * 2 * count)
        np.ndarray((2, count), WAITING_DTYPE, lists, strides=(LINE * count, LINE))["in_loop"] = self.in_loop
        w["lists"] = memory.address(lists)
        w["heap"] = memory.address(allocate(HEAP_DTYPE))
        w["batch"] = memory.zeros(max_batch)
        w["tables"] = memory.zeros(16)
        w["received"] = memory.zeros(self.ports)
        w["calls"], w["rows"] = memory.zeros(2 * count), memory.zeros(2 * count)
        w["blank"], w["recent"] = memory.zeros(LINE // 8), memory.zeros(LINE // 8)
        if trace:
            head = self.trace_heads[number]
            head["events"], head["capacity"] = self.traces[number].ctypes.data, trace
            w["trace"] = self.trace_heads[number:number + 1].ctypes.data

    def _worker(self, number):
        return self.workers[number:number + 1].ctypes.data

    def run(self, columns, order, *, row_index=None, training=True, max_active_keys=1, instances_before=0, key=0, observe=None,
            record=False, repeat=None):
        """Send the instances `order` through the nodes; returns a `Run`.

        columns: list of (values (rows, width) float32, offsets (instances + 1,) int64), in the order that nodes number
        them (tables of state functions: int32); row_index: permutation of the rows of all columns; key: of random draws,
        uint64; observe: called with the number of instances home while the workers run; record: give `Run.order`; repeat: the
        `Run.order` of a run that began with the same parameters and data, to do all in its order. Raises `OperationError` (or
        `DivergenceError`) for the first failing operation; on that, and on KeyboardInterrupt, all workers are stopped and
        joined, and everything in flight is freed.
        """
        if not self._in_use.acquire(blocking=False):
            raise OperationError("this engine is running already")
        try:
            kept = self._begin(columns, order, row_index, training, max_active_keys, instances_before, key)
            self.workers["log"] = self.logs.open(record, repeat)
            started = time.perf_counter()
            try:
                self._work(observe)
            except BaseException:
                self.forget()
                raise
            seconds = time.perf_counter() - started
            if self.engine["failed"][0]:
                error = self._failure()
                self.forget()
                raise error
            del kept
            return self._collect(seconds, len(order), training)
        finally:
            self.workers["log"] = 0
            self.logs.close()
            self._in_use.release()

    def _begin(self, columns, order, row_index, training, max_active_keys, instances_before, key):
        order = np.ascontiguousarray(order, np.int64)
        table = allocate(COLUMN_DTYPE, len(columns))
        for entry, (values, offsets) in zip(table, columns, strict=True):
            entry["values"], entry["width"], entry["offsets"] = values.ctypes.data, values.shape[1], offsets.ctypes.data
        slots = min(max_active_keys, len(order)) if self.lanes == 1 else max(max_active_keys, self.lanes)
        slot_tables = [np.zeros(slots + 1, np.int64) for _ in range(self.worker_count)]
        pending = allocate(np.uint8, LINE * (slots + 1))
        e = self.engine
        e["columns"], e["lane_count"] = table.ctypes.data, self.lanes
        e["order"], e["total"] = order.ctypes.data, len(order)
        e["row_index"] = 0 if row_index is None else row_index.ctypes.data
        e["slot_total"] = slots
        e["pending"], e["training"], e["instances_before"] = pending.ctypes.data, int(training), instances_before
        e["key"] = np.uint64(key).astype(np.int64)
        for name in ("next", "retired", "stop", "failed"):
            e[name] = 0
        for number in range(self.worker_count):
            w = self.workers[number]
            mine = [s for s in reversed(range(slots)) if s % self.lanes % self.worker_count == number]
            slot_tables[number][:len(mine)] = mine
            w["slots"], w["slot_count"] = slot_tables[number].ctypes.data, len(mine)
            w["idle_nanoseconds"], w["asleep"] = 0, 0
            for name, size in (("received", self.ports), ("calls", 2 * len(self.nodes)), ("rows", 2 * len(self.nodes))):
                self._words(w[name], size)[:] = 0
        self.trace_heads["count"] = 0
        self.delays[:] = 0
        for node in self.nodes:
            if node.refresh is not None:
                node.refresh(self._worker(0), node.record.ctypes.data, 0, 0)   # weights may have been loaded since
            node.record["failed_parameter"] = -1
            for name in ("loss", "error", "correct", "targets", "gradients", "staleness"):
                node.record[name] = 0
        return order, table, slot_tables, pending, columns, row_index

    def _work(self, observe):
        """Start the workers, watch, join; on an error or an interruption stop them first."""
        workers = [self._worker(number) for number in range(self.worker_count)]
        crew = Crew(lambda worker: run_worker.ctypes(worker, update.address, 0, 0), workers, "ampnet-worker")
        try:
            crew.start()
            quiet, before = 0, None
            while not crew.are_done.wait(POLL_SECONDS):
                if observe is not None:
                    observe(int(self.engine["retired"][0]))
                now = (int(self.engine["retired"][0]), int(self.workers["taken"].sum()), int(self.workers["given"].sum()))
                is_quiet = now == before and self.workers["asleep"].all()
                is_quiet = is_quiet and (self.logs.are_repeated or self.messages_waiting() == 0)
                quiet, before = quiet + 1 if is_quiet else 0, now
                if quiet >= STALLED_POLLS:
                    raise self._stall()
            crew.join()
        except BaseException:
            self.engine["stop"] = 1
            crew.dismiss()
            raise

    def flush(self):
        """Apply the gradients left over: each node that has gathered any updates itself."""
        for node in self.nodes:
            if node.record["parameter_count"][0] == 0:
                continue
            status = update.ctypes(self._worker(0), node.record.ctypes.data, 0, 0)
            if status:
                e = self.engine
                e["failed_node"], e["failed_status"] = node.record["number"], status
                e["failed_direction"], e["failed_version"] = UPDATE_OPERATION, node.record["version"]
                e["failed_state"][0] = self._words(self.workers[0]["recent"], 8).view(np.int32)[8:16]
                error = self._failure()
                self.forget()
                raise error

    def _failure(self):
        e = self.engine[0]
        node = self.nodes[int(e["failed_node"])]
        name = node.name
        where = ("forward", "backward", "update")[int(e["failed_direction"])]
        status = int(e["failed_status"])
        reason = REASONS.get(status, f"its operation returned status {status}")
        state = e["failed_state"]
        if where == "update":
            number = int(node.record["failed_parameter"][0])
            reason = f"parameter '{node.parameters[number]}': {reason}" if 0 <= number < len(node.parameters) else reason
        text = (f"node '{name}', {where}, instance {state[0]} (state {state[1:].tolist()}), "
                f"update {int(e['failed_version']) + 1}: {reason}")
        error = (DivergenceError if status in (m.NOT_FINITE, m.TOO_LARGE) else OperationError)(text)
        error.node, error.instance, error.direction, error.status = name, int(state[0]), where, status
        error.update = int(e["failed_version"]) + 1
        return error

    def _stall(self):
        """Nothing moves and instances are not home: some node waits for messages that never come."""
        waiting = [f"'{n.name}' ({kept})" for n, kept in zip(self.nodes, self.states_kept(), strict=True) if kept]
        if self.logs.are_repeated:
            return OperationError("the recorded order does not fit this run: a worker waits for a message that does not come")
        home, total = int(self.engine["retired"][0]), int(self.engine["total"][0])
        return OperationError(f"the run stands still with {home} of {total} instances home: a join waits for a state that "
                              f"no message brings, or a message was lost; nodes that keep states: {', '.join(waiting)}")

    def forget(self):
        """Free all that is in flight, and forget gathered gradients: after a failure, an interrupt, or a trial."""
        self._clear_workers()
        for node in self.nodes:
            clear_node.ctypes(self._worker(0), node.record.ctypes.data, 0, 0)

    def _clear_workers(self):
        for number in range(self.worker_count):
            clear_worker.ctypes(self._worker(number), 0, 0, 0)

    def _words(self, address, size):
        import ctypes
        return np.ctypeslib.as_array((ctypes.c_int64 * size).from_address(int(address)))

    def _sum(self, name, size):
        return sum(self._words(w[name], size).copy() for w in self.workers)

    def _column(self, name):
        return np.array([node.record[name][0] for node in self.nodes])

    def _collect(self, seconds, instances, training):
        received, count = self._sum("received", self.ports), len(self.nodes)
        gradients = self._column("gradients")
        events = []
        for buffer, head in zip(self.traces, self.trace_heads, strict=True):
            n, capacity = int(head["count"]), len(buffer)
            events.append(buffer[:n].copy() if n <= capacity else np.roll(buffer, -(n % capacity), axis=0))
        return Run(
            seconds=seconds, instances=instances,
            received_forward=received[:self.inputs], received_backward=received[self.inputs:],
            calls=self._sum("calls", 2 * count).reshape(2, count), rows=self._sum("rows", 2 * count).reshape(2, count),
            busy=[max(0.0, 1 - int(w["idle_nanoseconds"]) * 1e-9 / max(seconds, 1e-9)) for w in self.workers],
            loss=self._column("loss"), error=self._column("error"), correct=self._column("correct"),
            targets=self._column("targets"), gradients=gradients,
            staleness=self._column("staleness") / np.maximum(gradients, 1),
            delays=self.delays.copy(), updates=self.updates(), events=events, order=self.logs.recorded())

    def updates(self) -> np.ndarray:
        """Updates each node has made since the engine was built."""
        return self._column("version")

    def blocks_alive(self) -> int:
        """Message blocks that are not free, over all workers."""
        return int(self.workers["taken"].sum() - self.workers["given"].sum())

    def states_kept(self) -> list[int]:
        """Entries in each node's table."""
        return [int(n.record["used"][0]) for n in self.nodes]

    def messages_waiting(self) -> int:
        """Messages in waiting lists, queues and outboxes."""
        waiting = 0
        for w in self.workers:
            counts = int(w["lists"]) + LINE * 2 * len(self.nodes)
            waiting += int(self._words(counts, 2 * len(self.nodes)).sum())
            for queue in range(int(w["queues"]), int(w["queues"]) + QUEUE_BYTES * self.worker_count, QUEUE_BYTES):
                waiting += int(self._words(queue, 1)[0] != self._words(queue + LINE, 1)[0])
            waiting += int(w["outbox_first"] != 0)
        return waiting

    def __del__(self):
        if hasattr(self, "workers") and not sys.is_finalizing():
            self.forget()

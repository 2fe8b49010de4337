"""Python's side of the order in which workers do things: see `order`."""

import ctypes

import numpy as np

from ..errors import OperationError
from .memory import allocate, free_memory
from .order import MOST_WORKERS, RECORD, REPEAT
from .records import LOG_DTYPE


class OrderLogs:
    """A log for each worker, open while a run is recorded or repeated."""

    def __init__(self, workers):
        self.records = allocate(LOG_DTYPE, workers)

    def open(self, record, repeat):
        """Returns the address of each worker's log, 0 where there is none. repeat: what `recorded` gave, or None."""
        count = len(self.records)
        if not record and repeat is None:
            return [0] * count
        if count > MOST_WORKERS:
            raise OperationError(f"an order can be kept of at most {MOST_WORKERS} workers, not of {count}")
        if repeat is not None and len(repeat) != count:
            raise OperationError(f"the order of {len(repeat)} workers cannot be repeated on {count}")
        for number, log in enumerate(self.records):
            log["mode"] = RECORD
            if repeat is not None:
                log["mode"], log["bytes"], log["size"] = REPEAT, repeat[number].ctypes.data, len(repeat[number])
        return [self.records[number:].ctypes.data for number in range(count)]

    @property
    def are_repeated(self):
        return self.records["mode"][0] == REPEAT

    def recorded(self):
        """The bytes of each worker's log as a uint8 array; none where the run was not recorded."""
        return [np.frombuffer(ctypes.string_at(int(log["bytes"]), int(log["size"])), np.uint8)
                for log in self.records if log["mode"] == RECORD]

    def close(self):
        for log in self.records:
            if log["mode"] == RECORD and log["bytes"]:
                free_memory(int(log["bytes"]))
        self.records[:] = 0

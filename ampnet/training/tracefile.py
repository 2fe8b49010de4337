"""trace.json: operation calls as a Chrome / Perfetto trace, a track a worker, arrows where an instance changes workers."""

import json
from itertools import islice

import numpy as np

from .checkpoint import write_atomically

ARROWS = 20_000   # at most, in a file: they are there to look at
INSTANCE, WORKER = 5, 6   # columns of an event, the second of which is added here


class TraceFile:
    """Collects the events of runs; the file is valid JSON after every epoch."""

    def __init__(self, path, graph):
        self.path, self.names = path, [node.name for node in graph.nodes]
        self.entries, self.origin = [], None
        self.tracks = self.arrows = 0

    def add(self, events):
        """events: one array a worker, as in `Run.events`."""
        starts = [e[0, 0] for e in events if len(e)]
        if self.origin is None and starts:
            self.origin = int(min(starts))
        for worker in range(self.tracks, len(events)):
            self.entries.append({"name": "thread_name", "ph": "M", "pid": 0, "tid": worker,
                                 "args": {"name": f"worker {worker}"}})
        self.tracks = max(self.tracks, len(events))
        for worker, array in enumerate(events):
            self.entries += [self._slice(worker, *map(int, event)) for event in array]
        for before, after in islice(self._changes(events), ARROWS - self.arrows):
            self.entries += self._arrow(before, after)
            self.arrows += 1

    def write(self):
        """Times are in microseconds; with `displayTimeUnit` "ns" Perfetto would take them for nanoseconds."""
        write_atomically(self.path, json.dumps({"traceEvents": self.entries}).encode())

    def _slice(self, worker, start, end, number, messages, rows, instance):
        kind, node = divmod(number, len(self.names))
        return {"name": f"{self.names[node]} {('backward', 'forward', 'update')[kind]}", "ph": "X", "pid": 0, "tid": worker,
                "ts": self._microseconds(start), "dur": (end - start) / 1000,
                "args": {"messages": messages, "rows": rows, "instance": instance}}

    def _changes(self, events):
        """Pairs of operations of an instance, the second the next one after the first, on different workers.

        An operation on several messages stands for the instance of the first.
        """
        calls = np.concatenate([np.column_stack([array, np.full(len(array), worker)]) for worker, array in enumerate(events)])
        calls = calls[calls[:, 2] < 2 * len(self.names)]   # not the updates
        calls = calls[np.lexsort((calls[:, 0], calls[:, INSTANCE]))]
        before, after = calls[:-1], calls[1:]
        changes = (before[:, INSTANCE] == after[:, INSTANCE]) & (before[:, WORKER] != after[:, WORKER])
        changes &= before[:, 1] <= after[:, 0]
        return zip(before[changes], after[changes], strict=True)

    def _arrow(self, before, after):
        """From one slice to another: each end names a moment inside its slice."""
        common = {"name": "message", "cat": "message", "pid": 0, "id": self.arrows}
        return [common | {"ph": "s", "tid": int(before[WORKER]), "ts": self._microseconds(int(before[0]))},
                common | {"ph": "f", "bp": "e", "tid": int(after[WORKER]), "ts": self._microseconds(int(after[0]))}]

    def _microseconds(self, nanoseconds):
        return (nanoseconds - self.origin) / 1000

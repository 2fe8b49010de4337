"""trace.json: operation calls as a Chrome / Perfetto trace, a track a worker."""

import json

from .checkpoint import write_atomically


class TraceFile:
    """Collects the events of runs; the file is valid JSON after every epoch."""

    def __init__(self, path, graph):
        self.path, self.names = path, [node.name for node in graph.nodes]
        self.entries, self.origin = [], None

    def add(self, events):
        """events: one array a worker, as in `Run.events`."""
        starts = [e[0, 0] for e in events if len(e)]
        if self.origin is None and starts:
            self.origin = int(min(starts))
        for worker, array in enumerate(events):
            self.entries += [self._slice(worker, *map(int, event)) for event in array]

    def write(self):
        write_atomically(self.path, json.dumps({"traceEvents": self.entries, "displayTimeUnit": "ns"}).encode())

    def _slice(self, worker, start, end, number, messages, rows, instance):
        kind, node = divmod(number, len(self.names))
        return {"name": f"{self.names[node]} {('backward', 'forward', 'update')[kind]}", "ph": "X", "pid": 0, "tid": worker,
                "ts": (start - self.origin) / 1000, "dur": (end - start) / 1000,
                "args": {"messages": messages, "rows": rows, "instance": instance}}

"""trace.json: tracks with names, slices for operations and updates, arrows from slice to slice."""

import json

import numpy as np
import pytest

from ampnet.graphs import Machine, rnn
from ampnet.training import tracefile
from ampnet.training.tracefile import TraceFile


@pytest.fixture
def recorded(lists):
    """(graph, events) of a run on two workers."""
    graph = rnn(hidden=16, embedding=16)
    machine = Machine(graph, 2, 5, coalesce=False, trace=100_000)
    machine.optimizer("sgd", 0.01)
    run = machine.run(lists.train.take(30), max_active_keys=4)
    machine.flush()
    return graph, run.events


def written(path, graph, *runs):
    trace = TraceFile(path, graph)
    for events in runs:
        trace.add(events)
    trace.write()
    trace = json.loads(path.read_text())
    assert set(trace) == {"traceEvents"}   # a `displayTimeUnit` would change the unit of times for some readers
    return trace["traceEvents"]


def of(entries, phase):
    return [entry for entry in entries if entry["ph"] == phase]


def test_each_worker_has_one_track_with_its_name(recorded, tmp_path):
    entries = written(tmp_path / "trace.json", *recorded, recorded[1])
    assert [(e["tid"], e["name"], e["args"]["name"]) for e in of(entries, "M")] == [
        (0, "thread_name", "worker 0"), (1, "thread_name", "worker 1")]


def test_every_operation_and_update_is_a_slice(recorded, tmp_path):
    graph, events = recorded
    slices = of(written(tmp_path / "trace.json", graph, events), "X")
    assert len(slices) == sum(map(len, events))
    kinds = [entry["name"].rpartition(" ")[2] for entry in slices]
    assert set(kinds) == {"forward", "backward", "update"}
    updates = [entry for entry in slices if entry["name"] == "cell update"]
    assert updates and all(entry["args"]["messages"] == 5 for entry in updates)
    assert min(entry["ts"] for entry in slices) == 0


def test_arrows_lead_from_a_slice_to_the_next_one_of_the_instance_elsewhere(recorded, tmp_path):
    entries = written(tmp_path / "trace.json", *recorded)
    slices = {(entry["tid"], entry["ts"]): entry for entry in of(entries, "X")}
    starts, ends = of(entries, "s"), of(entries, "f")
    assert 60 < len(starts) == len(ends) == len({entry["id"] for entry in starts})
    for start, end in zip(starts, ends, strict=True):
        before, after = (slices[e["tid"], e["ts"]] for e in (start, end))
        assert start["id"] == end["id"] and start["tid"] != end["tid"] and end["bp"] == "e"
        assert before["args"]["instance"] == after["args"]["instance"]
        assert before["ts"] + before["dur"] <= after["ts"] + 1e-3
        assert not before["name"].endswith("update") and not after["name"].endswith("update")


def test_arrows_are_bounded_over_all_runs(recorded, tmp_path, monkeypatch):
    monkeypatch.setattr(tracefile, "ARROWS", 70)
    graph, events = recorded
    entries = written(tmp_path / "trace.json", graph, events, events)
    assert len(of(entries, "s")) == len(of(entries, "f")) == 70


def test_a_run_without_events(recorded, tmp_path):
    graph, events = recorded
    nothing = [np.zeros((0, 6), np.int64)] * 2
    assert len(of(written(tmp_path / "trace.json", graph, nothing, events), "X")) == sum(map(len, events))

"""The machine as a whole: stalls, failures, schedules, counters."""

import threading

import numpy as np
import pytest

from ampnet.errors import DivergenceError, OperationError
from ampnet.graphs import Concat, Graph, Isu, Linear, Machine, SquaredError
from ampnet.runtime.records import DELAYS
from ampnet.testing import check_drained
from tests.graphs.helpers import gradients_of, sequences


def ahead(s):
    s.position += 100


def behind(s):
    s.position -= 100


@pytest.mark.parametrize("workers", [1, 3])
def test_a_join_that_never_completes_is_an_error_and_no_hang(workers):
    g = Graph(state="position")
    x = g.rows("x", 3, index="position")
    lost = Isu(ahead, behind)(Linear(3, 2)(g.rows("x", 3, index="position")))
    SquaredError("row_target", index="position")(Linear(5, 2)(Concat(name="join")(x, lost)))
    machine = Machine(g, workers)
    machine.optimizer()
    with pytest.raises(OperationError, match="stands still.*'join'"):
        machine.run(sequences(4), max_active_keys=2)
    assert machine.engine.blocks_alive() == 0
    assert machine.engine.messages_waiting() == 0


def line(name="x"):
    g = Graph()
    SquaredError("row_target", name="loss")(Linear(3, 2, name="last")(Linear(3, 3, "tanh", name="first")(g.matrix(name, 3))))
    return g


@pytest.mark.parametrize("workers", [1, 4])
def test_divergence_stops_all_and_names_node_instance_and_update(workers):
    g, data = line().initialise(0), sequences(50)
    machine = Machine(g, workers, min_update_frequency=1)
    machine.optimizer("sgd", 1e30)
    with pytest.raises(DivergenceError, match=r"node '(loss|first|last)', (forward|update), instance \d+.*update \d+"):
        machine.run(data, max_active_keys=4)
    assert machine.engine.messages_waiting() == 0
    g.initialise(0)   # the same machine goes on after a failure
    machine.optimizer("sgd", 1e-3)
    run = machine.run(data, max_active_keys=4)
    machine.flush()
    assert run.instances == 50 and run.received_forward.sum() == run.received_backward.sum() == 150


def test_a_nan_in_one_gradient_is_found_in_the_update():
    g, data = line().initialise(0), sequences(5)
    machine = Machine(g, min_update_frequency=5)
    machine.optimizer("adam", 1e-3)
    g.named_parameters()["last.weight"].gradient[1, 1] = np.nan
    with pytest.raises(DivergenceError, match="'last', update") as caught:
        machine.run(data)
    assert caught.value.node == "last" and caught.value.update == 1
    assert np.isfinite(g.parameters["last.weight"]).all()


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("keys", [1, 2, 100])
@pytest.mark.parametrize("instances", [1, 2, 3])
def test_tiny_epochs_end(workers, keys, instances):
    _, run = gradients_of(line(), sequences(instances), workers, keys)
    assert run.instances == instances


def test_updates_are_counted_from_gradients_and_leftovers_are_applied():
    machine = Machine(line(), min_update_frequency=10, coalesce=False)
    machine.optimizer("sgd", 1e-3)
    run = machine.run(sequences(97))
    before = machine.engine.updates()
    machine.flush()
    after = machine.engine.updates()
    numbers = [n.number for n in machine.graph.nodes if n.parameters]
    assert list(run.gradients[numbers]) == [97, 97]
    assert list(before[numbers]) == [9, 9] and list(after[numbers]) == [10, 10]
    check_drained(machine, run)


def test_staleness_is_zero_with_one_instance_in_flight_and_grows_with_more():
    means = []
    for keys in (1, 8):
        machine = Machine(line(), min_update_frequency=1, coalesce=False)
        machine.optimizer("sgd", 1e-3)
        run = machine.run(sequences(200), max_active_keys=keys)
        means.append(run.staleness.max())
        machine.flush()
        assert (run.delays.sum(axis=1) == run.gradients).all()
        assert run.delays @ np.arange(DELAYS) == pytest.approx(run.staleness * run.gradients)
    assert means[0] == 0 < means[1] < 8


def test_evaluation_changes_nothing_and_answers_every_message():
    g = line().initialise(0)
    before = {k: v.copy() for k, v in g.parameters.items()}
    machine = Machine(g, 2, min_update_frequency=1)
    machine.optimizer("sgd", 0.1)
    run = machine.run(sequences(30), training=False, max_active_keys=8)
    check_drained(machine, run)
    assert all(np.array_equal(before[k], v) for k, v in g.parameters.items())
    assert not any(p.gradient.any() for p in g.named_parameters().values())


def test_one_engine_cannot_run_twice_at_once():
    machine = Machine(line())
    machine.optimizer()
    machine.engine._in_use.acquire()
    with pytest.raises(OperationError, match="running already"):
        machine.run(sequences(1))


@pytest.mark.parametrize("method", ["start", "join"])
def test_an_interrupt_while_workers_start_or_are_joined_waits_for_them(monkeypatch, method):
    machine = Machine(line(), 3)
    machine.optimizer()
    real, calls = getattr(threading.Thread, method), []

    def interrupted(thread, *arguments):
        calls.append(thread)
        real(thread, *arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(threading.Thread, method, interrupted)
        machine.run(sequences(200), max_active_keys=4)
    assert not [t for t in threading.enumerate() if t.name.startswith("ampnet-worker")]
    assert machine.engine.blocks_alive() == 0
    run = machine.run(sequences(10), max_active_keys=4)
    machine.gather_held()
    check_drained(machine, run)


def test_an_interrupt_stops_the_workers_and_frees_everything():
    machine = Machine(line(), 2)
    machine.optimizer()

    def interrupt(home):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        machine.run(sequences(300_000, longest=2), max_active_keys=16, observe=interrupt)
    assert machine.engine.blocks_alive() == 0 and machine.engine.messages_waiting() == 0
    run = machine.run(sequences(10), max_active_keys=16)
    machine.gather_held()
    check_drained(machine, run)


def test_the_trace_has_every_operation_and_workers_do_one_at_a_time():
    machine = Machine(line(), 2, trace=1000)
    machine.optimizer()
    run = machine.run(sequences(20), max_active_keys=4)
    machine.gather_held()
    node_count = len(machine.graph.nodes)
    assert sum((e[:, 2] < 2 * node_count).sum() for e in run.events) == run.calls.sum()
    for events in run.events:
        assert (events[1:, 0] >= events[:-1, 1]).all()
        assert (events[:, 1] >= events[:, 0]).all()
        assert (events[:, 5] < 20).all()


def test_the_trace_has_every_update_and_what_had_been_gathered():
    machine = Machine(line(), min_update_frequency=3, coalesce=False, trace=1000)
    machine.optimizer("sgd", 1e-3)
    events = machine.run(sequences(20), max_active_keys=4).events[0]
    machine.flush()
    nodes = machine.graph.nodes
    for node in nodes:
        number, gathered, updates = node.number, 0, 0
        for event in events:
            gathered += event[2] == number
            if event[2] == 2 * len(nodes) + number:
                assert event[3] == gathered == 3
                gathered, updates = 0, updates + 1
        assert updates == (6 if node.parameters else 0)

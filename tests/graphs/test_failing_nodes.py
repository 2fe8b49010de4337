"""A user's operation that fails: one error in the caller, soon, that says where; all stopped; and the next run works."""

import threading
import time

import pytest

from ampnet import Trainer
from ampnet.errors import DivergenceError, GraphError, OperationError
from ampnet.graphs import Cond, Flatmap, Graph, Isu, Linear, Machine, Phi, SquaredError
from tests.graphs.failing_node import STATUS, Faulty
from tests.graphs.helpers import sequences

AT, SECONDS = 13, 2
# where it fails, and who finds that: node, direction, and instance with one in flight
CASES = [
    ("forward", False, "faulty", "forward", AT), ("backward", False, "faulty", "backward", AT),
    ("settle", False, "faulty", "update", AT), ("refresh", False, "faulty", "update", AT),
    ("forward", True, "loss", "forward", AT), ("backward", True, "first", "update", AT),
    ("settle", True, "faulty", "update", AT), ("refresh", True, "loss", "forward", AT + 1),
]


def graph(place, writes_nan):
    g = Graph()
    x = Faulty(3, place, writes_nan, AT, name="faulty")(Linear(3, 3, "tanh", name="first")(g.matrix("x", 3)))
    SquaredError("row_target", name="loss")(Linear(3, 2, name="last")(x))
    return g.initialise(1)


@pytest.fixture
def strays(monkeypatch):
    """Exceptions that ended a thread instead of coming to the caller."""
    found = []
    monkeypatch.setattr(threading, "excepthook", found.append)
    return found


def fail(machine, instances, max_active_keys=1):
    """The one error of a run, and that it came within time and left no thread, no message waiting, no state kept, no block."""
    started = time.perf_counter()
    with pytest.raises(OperationError) as caught:
        machine.run(instances, max_active_keys=max_active_keys)
        machine.flush()
    assert time.perf_counter() - started < SECONDS
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ampnet")]
    assert machine.engine.messages_waiting() == 0 and not any(machine.engine.states_kept())
    assert machine.engine.blocks_alive() == 0
    return caught.value


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("place, writes_nan, node, direction, instance", CASES)
def test_a_failure_names_node_direction_and_instance(strays, workers, place, writes_nan, node, direction, instance):
    machine = Machine(graph(place, writes_nan), workers, min_update_frequency=1, coalesce=False)
    machine.optimizer("sgd", 1e-3)
    error = fail(machine, sequences(40))
    assert (error.node, error.direction, error.instance) == (node, direction, instance)
    assert isinstance(error, DivergenceError) == writes_nan
    reason = "not finite" if writes_nan else f"status {STATUS}"
    assert f"node '{node}', {direction}, instance {instance} (state [" in str(error) and reason in str(error)
    assert "\n" not in str(error) and strays == []


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("place, writes_nan, node, direction, instance", CASES)
def test_a_failure_among_many_instances_in_flight(strays, workers, place, writes_nan, node, direction, instance):
    """Many messages go through one operation here: an error that an update finds is of any instance among them."""
    machine = Machine(graph(place, writes_nan), workers, min_update_frequency=1)
    machine.optimizer("sgd", 1e-3)
    error = fail(machine, sequences(400), max_active_keys=8)
    assert isinstance(error, DivergenceError) == writes_nan and 0 <= error.instance < 400
    if place != "refresh" or not writes_nan:
        assert (error.node, error.direction) == (node, direction)
    if direction != "update" and place != "refresh":
        assert error.instance == instance
    assert strays == []


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("place, writes_nan", [("forward", False), ("backward", True), ("refresh", False)])
def test_a_new_trainer_works_afterwards(workers, place, writes_nan):
    options = {"workers": workers, "max_active_keys": 1, "min_update_frequency": 1, "optimizer": "sgd", "lr": 1e-3}
    with pytest.raises(OperationError):
        Trainer(graph(place, writes_nan), **options).fit(sequences(40), epochs=1)
    sound = Graph()
    SquaredError("row_target")(Linear(3, 2)(sound.matrix("x", 3)))
    history = Trainer(sound, **options).fit(sequences(40), epochs=3)
    assert history.epochs[2]["train_loss"] < history.epochs[0]["train_loss"]


def test_a_failure_in_the_last_update_of_an_epoch():
    """Gradients left over are applied when all instances are home; there a node can fail as well."""
    machine = Machine(graph("settle", False), 2, min_update_frequency=3, coalesce=False)
    machine.optimizer("sgd", 1e-3)
    error = fail(machine, sequences(3 * AT + 1))
    assert (error.node, error.direction, error.update) == ("faulty", "update", AT + 1)


LIMITS = {"longest": 3}


def is_short(s):
    return s.position < LIMITS["longest"]   # compiled code cannot read a dictionary


def ahead(s):
    s.position += LIMITS["longest"]


def behind(s):
    s.position -= LIMITS["longest"]


def member(s, i):
    s.position = i + LIMITS["longest"]


def group(s):
    s.position = 0


def size(s):
    return 3


def has_label(s):
    return f"{s.position:03d}" != LIMITS   # nor format a number


def forked(function):
    def build(x):
        a, b = Cond(function, name="fork")(x)
        return Phi()(a, b)
    return build


KINDS = {
    "Cond": (forked(is_short), "fork", ("is_short",)),
    "bytecode": (forked(has_label), "fork", ("has_label",)),
    "Isu": (lambda x: Isu(ahead, behind, name="jump")(x), "jump", ("ahead", "behind")),
    "Flatmap": (lambda x: Flatmap(member, group, size, name="copies")(x), "copies", ("member",)),
}


@pytest.mark.parametrize("build, node, functions", KINDS.values(), ids=list(KINDS))
def test_a_state_function_that_cannot_be_compiled_is_named_before_anything_starts(monkeypatch, build, node, functions):
    g = Graph(state="position")
    SquaredError("row_target", index="position")(Linear(3, 2)(build(g.rows("x", 3, index="position"))))
    started = []
    monkeypatch.setattr(threading.Thread, "start", started.append)
    with pytest.raises(GraphError) as caught:
        Trainer(g).fit(sequences(5), epochs=1)
    text = str(caught.value)
    assert started == [] and "\n" not in text
    assert any(f"'{name}'" in text for name in functions) and "cannot be compiled" in text
    assert f"'{node}'" in text
    assert "LIMITS" in text or "format spec" in text   # what is the matter

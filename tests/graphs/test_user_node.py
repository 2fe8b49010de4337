"""A node kind defined in a file of its own with the public kit works like the built-in ones."""

import pytest

from ampnet.errors import OperationError
from ampnet.graphs import Graph, Linear, Machine, SquaredError
from tests.graphs.helpers import assert_equals_reference, sequences
from tests.graphs.scale_node import Scale


def graph(fail_at=-1):
    g = Graph(state="position")
    x = Scale(3, fail_at, name="scale")(Linear(3, 3, "tanh")(g.rows("x", 3, index="position")))
    SquaredError("row_target", index="position")(Linear(3, 2)(x))
    return g.initialise(1)


@pytest.mark.parametrize("workers, keys", [(1, 1), (1, 8), (2, 1), (2, 8)])
def test_its_gradients_equal_its_twins(workers, keys):
    assert_equals_reference(graph(), sequences(20), workers, keys)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("training", [True, False])
def test_its_failure_is_one_error_that_names_node_instance_and_direction(workers, training):
    machine = Machine(graph(fail_at=13), workers, min_update_frequency=1)
    machine.optimizer()
    with pytest.raises(OperationError, match="node 'scale', forward, instance 13 .*status 107") as caught:
        machine.run(sequences(40), training=training, max_active_keys=4)
    assert (caught.value.node, caught.value.instance, caught.value.direction) == ("scale", 13, "forward")
    assert machine.engine.messages_waiting() == 0

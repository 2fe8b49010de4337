"""Tables of state functions, and the groups that are made with them."""

import numpy as np
import pytest

from ampnet.datasets import Column, Instances
from ampnet.errors import DataError, GraphError, OperationError
from ampnet.graphs import Cond, Graph, Group, Isu, Linear, Machine, Phi, SquaredError, SumRows
from ampnet.graphs.state import Layout, compile_function
from ampnet.graphs.tables import NOTHING, Table

from .helpers import assert_equals_reference


def rows(**tables):
    offsets = np.array([0, 2, 5])
    columns = {"x": Column(np.random.default_rng(0).standard_normal((5, 3)), offsets, "x"),
               "target": Column(np.random.default_rng(1).standard_normal((2, 1)), name="target")}
    return Instances({**columns, **{name: Column(np.array(v), offsets, name) for name, v in tables.items()}})


def grouped(place, size=lambda s, t: len(t.order), tables="order"):
    """Rows collected into one matrix, in the places that a table says."""
    g = Graph("row", tables=tables)
    x = Group(whole, place, size, name="group")(g.rows("x", 3, index="row"))
    SquaredError("target")(SumRows()(Linear(3, 1, "tanh")(x)))
    return g.initialise(0)


def whole(s):
    s.row = 0


def in_order(s, t):
    return t.order[s.row]


def test_a_table_holds_nothing_beyond_its_ends():
    table = Table([3, 4.0, 5])
    assert [table[i] for i in (-1, 0, 2, 3, 99)] == [NOTHING, 3, 5, NOTHING, NOTHING] and len(table) == 3


def test_compiled_functions_see_the_same():
    def look(s, t):
        return 1000 * t.order[s.row] + len(t.order)

    data = rows(order=[1, 0, 2, 1, 0])
    machine = Machine(grouped(in_order))
    machine.run(data, training=False)
    engine = machine.engine
    columns = [(c.values, c.offsets) for c in (data["target"], data["x"])]
    kept = engine._begin([*columns, (data["order"].integers(), data["order"].offsets)], np.arange(2), None, False, 1, 0, 0)
    function = compile_function(look, Layout(("instance", "row"), (("order", 2),)))
    for instance, row, expected in ((0, 0, 1002), (0, 1, 2), (0, 2, -998), (1, 0, 2003), (1, -1, -997), (1, 3, -997)):
        state = np.array([instance, row, 0, 0, 0, 0, 0, 0], np.int32)
        assert function.ctypes(state.ctypes.data, int(engine.engine["columns"][0]), 0) == expected
    assert kept


@pytest.mark.parametrize("workers, keys", [(1, 1), (2, 2)])
def test_groups_are_stacked_in_their_places(workers, keys):
    assert_equals_reference(grouped(in_order), rows(order=[1, 0, 2, 0, 1]), workers, keys)


@pytest.mark.parametrize("order, text", [([1, 1, 2, 0, 1], "two messages with the same state"),
                                         ([0, 5, 0, 1, 2], "no row for this state"),
                                         ([0, -1, 0, 1, 2], "no row for this state")])
def test_wrong_places_stop_the_run(order, text):
    machine = Machine(grouped(in_order))
    with pytest.raises(OperationError, match=f"node 'group'.*instance 0.*{text}"):
        machine.run(rows(order=order))
    assert machine.engine.messages_waiting() == 0


def test_a_group_that_never_fills_is_an_error_and_no_hang():
    machine = Machine(grouped(in_order, size=lambda s, t: len(t.order) + 1))
    with pytest.raises(OperationError, match="stands still.*'group'"):
        machine.run(rows(order=[0, 1, 0, 1, 2]))


def test_a_group_of_no_size():
    machine = Machine(grouped(in_order, size=lambda s, t: 0))
    with pytest.raises(OperationError, match="node 'group'"):
        machine.run(rows(order=[0, 1, 0, 1, 2]))


def test_columns_that_are_no_tables():
    graph = grouped(in_order)
    with pytest.raises(DataError, match="column 'order', row 1: 0.5 is no whole number"):
        graph.check_data(rows(order=[0, 0.5, 0, 1, 2]))
    wide = rows(order=[0, 1, 0, 1, 2])
    wide.columns["order"] = Column(np.zeros((5, 2)), np.array([0, 2, 5]), "order")
    with pytest.raises(DataError, match="'order' is a table and must have width 1, got 2"):
        graph.check_data(wide)
    del wide.columns["order"]
    with pytest.raises(DataError, match="reads column 'order'"):
        graph.check_data(wide)


def test_functions_that_name_what_is_not_there():
    with pytest.raises(GraphError, match="'group': state function 'in_order'.*no attribute 'order'"):
        Machine(grouped(in_order, tables="other"))
    g = Graph("row")
    more, last = Cond(lambda s, t, u, v: True, name="cond")(g.rows("x", 3, index="row"))
    SquaredError("target")(Linear(3, 1)(Phi()(more, last)))
    with pytest.raises(GraphError, match="'cond'.*must take the state"):
        g.check()
    for wrong in ("a a", "a-b", "_a"):
        with pytest.raises(GraphError, match="table"):
            Graph("row", tables=wrong)


def test_an_isu_by_table_cannot_be_tried_on_samples_and_is_not():
    def to(s, t):
        s.row = t.order[s.row]

    g = Graph("row", tables="order")
    x = Isu(to, to)(g.rows("x", 3, index="row"))
    SquaredError("target")(SumRows()(Linear(3, 1)(Group(whole, lambda s: s.row, lambda s, t: len(t.order))(x))))
    assert_equals_reference(g.initialise(0), rows(order=[1, 0, 2, 1, 0]))

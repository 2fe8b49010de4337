"""Control flow looks only at the state (and the tables it points into): Cond routes, Phi joins, Isu rewrites the state.

All three pass the message itself on, as soon as it comes. Cond and Isu have no memory and run on whichever worker the
message is; Phi remembers where a state came from.
"""

from ...errors import GraphError
from ...runtime.atomics import load
from ...runtime.message import (
    DONE,
    MESSAGE,
    NO_ACTIVATION,
    SAME_STATE,
    WRONG_ROUTE,
    apply_state_function,
    blame,
    operation,
    pass_back,
    pass_on,
)
from ...runtime.records import NODE
from ...runtime.table import put, take
from ..state import check_inverse, compile_function, try_function
from .node import Node, shape


class Cond(Node):
    """Routes by a function of the state. Outputs: (where it is true, where it is false).

    With `outputs=n` the function returns the number of the output, 0 to n - 1.
    """

    immediate = roaming = passes_on = True

    def __init__(self, function, outputs=None, name=None):
        super().__init__(name)
        if outputs is not None and (not isinstance(outputs, int) or outputs < 2):
            raise GraphError(f"Cond: outputs must be at least 2, got {outputs!r}")
        self.function, self.output_count = function, outputs

    def output_widths(self, widths):
        return widths * (self.output_count or 2)

    def check_state(self, layout):
        try_function(self.function, layout, f"'{self.name}'")

    def fill(self, record, graph):
        compiled = compile_function(self.function, graph.layout)
        record["function"], record["width"] = compiled.address, self.output_count is None
        return [compiled]

    def port_of(self, result):
        """The output that a result of the state function names."""
        return int(result) if self.output_count else 0 if result else 1


class Phi(Node):
    """Passes on whichever input comes, and sends the gradient back there. A state may come from one input only."""

    immediate = passes_on = True
    input_count = None

    def output_widths(self, widths):
        for width in widths[1:]:
            self._same(widths[0], width)
        return widths[:1]

    def connect(self, source):
        self._same(self.outputs[0].width, source.width)
        self._take(source)

    def _same(self, first, other):
        if first != other:
            raise GraphError(f"'{self.name}' joins inputs of one shape but is fed {shape(first)} and {shape(other)}")


class Isu(Node):
    """Rewrites the state with `function`; backward rewrites it with `inverse`, which must undo it."""

    immediate = roaming = passes_on = True

    def __init__(self, function, inverse, name=None):
        super().__init__(name)
        self.function, self.inverse = function, inverse

    def output_widths(self, widths):
        return widths

    def check_state(self, layout):
        for function in (self.function, self.inverse):
            try_function(function, layout, f"'{self.name}'")
        check_inverse(self.function, self.inverse, layout.fields, f"'{self.name}'")

    def fill(self, record, graph):
        compiled = [compile_function(f, graph.layout) for f in (self.function, self.inverse)]
        record["function"], record["inverse"] = (c.address for c in compiled)
        return compiled


@operation
def cond_forward(worker, node, batch, count):
    """To the output that the state function names."""
    message, n = load(batch), NODE(node)
    result = apply_state_function(worker, n.function, message)
    port = (0 if result != 0 else 1) if n.width != 0 else result
    if port < 0 or port >= n.outputs:
        return blame(worker, message, WRONG_ROUTE)
    pass_on(worker, node, port, message)
    return DONE


@operation
def pass_backward(worker, node, batch, count):
    """To the only predecessor."""
    pass_back(worker, node, 0, load(batch))
    return DONE


@operation
def phi_forward(worker, node, batch, count):
    """On, remembering the input."""
    message = load(batch)
    if not put(node, message, MESSAGE(message).port + 1):
        return blame(worker, message, SAME_STATE)
    pass_on(worker, node, 0, message)
    return DONE


@operation
def phi_backward(worker, node, batch, count):
    """Back to where this state came from."""
    message = load(batch)
    port = take(node, message) - 1
    if port < 0:
        return blame(worker, message, NO_ACTIVATION)
    pass_back(worker, node, port, message)
    return DONE


@operation
def isu_forward(worker, node, batch, count):
    """state = function(state)."""
    message = load(batch)
    apply_state_function(worker, NODE(node).function, message)
    pass_on(worker, node, 0, message)
    return DONE


@operation
def isu_backward(worker, node, batch, count):
    """state = inverse(state)."""
    message = load(batch)
    apply_state_function(worker, NODE(node).inverse, message)
    pass_back(worker, node, 0, message)
    return DONE


Cond.forward, Cond.backward = cond_forward, pass_backward
Phi.forward, Phi.backward = phi_forward, phi_backward
Isu.forward, Isu.backward = isu_forward, isu_backward

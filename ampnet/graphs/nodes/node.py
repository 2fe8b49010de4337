"""What all node kinds have in common.

A node kind is a class (parameters, shapes, checks) and its compiled operations `forward` and `backward`, in one file.
See docs/nodes.md for one written from scratch.
"""

import copy

from ...errors import GraphError
from ...runtime.message import STATE_FIELDS  # noqa: F401  (re-exported for node files)
from ...runtime.records import NODE_DTYPE


def shape(width):
    """A payload's shape as messages show it."""
    return f"(rows, {width})"


def positive(value, what):
    """A size given by the user: a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise GraphError(f"{what} must be a whole number of at least 1, got {value!r}")
    return value


class Output:
    """One output port of a node, to be fed to exactly one other node. `width`: columns of its payloads."""

    def __init__(self, node, port, width):
        self.node, self.port, self.width = node, port, width
        self.target = None

    def close(self, source):
        """Feed a further output into the node behind this one: closes the loop of a `Phi`."""
        self.node.connect(source)
        return self

    def __repr__(self):
        return f"output {self.port} of '{self.node.name}' {shape(self.width)}"


class Node:
    """Base of all node kinds.

    Class attributes: `dtype`, the node's record (`node_dtype` adds fields to the common ones); `forward`, `backward`,
    `settle`, `refresh`, `renew`, `late`, compiled operations; `helpers`, further ones, which these call by address;
    `immediate`: is called on arrival, message by message; `roaming`: has no memory, so it runs wherever a message is;
    `transparent`: in evaluation receipts pass it by (one input, one output, nothing kept); `passes_on`: sends the messages it
    gets on, as they are but for their state; `takes_empty`: knows that a payload without columns stands for zeros.
    """

    dtype = NODE_DTYPE
    forward = backward = settle = refresh = renew = late = None
    helpers = ()
    immediate = roaming = transparent = is_source = is_loss = passes_on = takes_empty = False
    input_count = 1   # None: any number
    column = index_field = None

    def __init__(self, name=None):
        self.name, self.graph, self.number, self.wired = name, None, None, False
        self.inputs, self.outputs = [], []
        self.parameters = {}
        self.min_update_frequency = self.worker = None
        self.passes = 1   # gradients of an instance that this node sees, where a counted loop makes it more than one
        self.original, self.replica = None, 0   # of a copy: the node it was made of, and its number from 1

    @property
    def kind(self):
        return type(self).__name__

    def __call__(self, *sources):
        """Wire the node behind outputs of other nodes; returns its output, or a tuple of them."""
        if not sources:
            raise GraphError(f"{self.kind} must be called on at least one output")
        for source in sources:
            if not isinstance(source, Output):
                raise GraphError(f"{self.kind} must be called on outputs of nodes, got {source!r}")
        sources[0].node.graph.add(self)
        if self.input_count is not None and len(sources) != self.input_count:
            raise GraphError(f"'{self.name}' takes {self.input_count} input, got {len(sources)}")
        widths = self.output_widths([s.width for s in sources])
        self.outputs = [Output(self, port, width) for port, width in enumerate(widths)]
        for source in sources:
            self._take(source)
        if len(self.outputs) == 1:
            return self.outputs[0]
        return tuple(self.outputs) or None

    def copy(self, name, replica):
        """A node like this one, with parameters of its own and wires yet to be laid."""
        other = copy.copy(self)
        other.name, other.graph, other.wired, other.original, other.replica = name, None, False, self, replica
        other.parameters = {label: p.like() for label, p in self.parameters.items()}
        other.inputs = [None] * len(self.inputs)
        other.outputs = [Output(other, o.port, o.width) for o in self.outputs]
        return other

    def connect(self, source):
        """A further input after the call; only kinds that join alternatives allow it."""
        raise GraphError(f"'{self.name}' ({self.kind}) takes no further input")

    def _take(self, source):
        if source.node.graph is not self.graph:
            raise GraphError(f"'{self.name}' and '{source.node.name}' belong to different graphs")
        if source.target is not None:
            other = source.target[0].name
            raise GraphError(f"{source} feeds '{other}' already and cannot feed '{self.name}' too: put a Bcast between")
        source.target = (self, len(self.inputs))
        self.inputs.append(source)

    def output_widths(self, widths):
        """Widths of the outputs for given widths of the inputs; raises GraphError where they do not fit."""
        raise NotImplementedError

    def check_state(self, layout):
        """Check what the node wants of the state, once the graph is complete."""

    def check_data(self, columns):
        """Check the data's columns that this node reads; raises DataError."""

    @property
    def read_columns(self):
        """Names of the data columns this node reads."""
        return () if self.column is None else (self.column,)

    def fill(self, record, graph):
        """Write the node's own fields into its record; returns what must be kept alive."""
        return []

    def cost(self):
        """Floating-point operations forward for one row, roughly; used for placement and FLOP counts."""
        return 0

    def backward_cost(self):
        """The same for backward."""
        return 2 * self.cost()

    @property
    def input_gradient(self):
        """Whether anything before this node learns, so that its input gradient is wanted."""
        carriers = self.graph.carriers()
        return any(source.node in carriers for source in self.inputs)

    def readers(self):
        """The nodes that take the messages this one makes, if need be from others that pass them on."""
        found, waiting, seen = [], [self], {self}
        while waiting:
            for output in waiting.pop().outputs:
                target = output.target[0]
                if target not in seen:
                    seen.add(target)
                    (waiting if target.passes_on else found).append(target)
        return found

    @property
    def operations(self):
        """All its compiled operations."""
        own = (self.forward, self.backward, self.settle, self.refresh, self.renew, self.late)
        return [operation for operation in (*self.helpers, *own) if operation is not None]

    @property
    def parameter_count(self):
        return sum(p.value.size for p in self.parameters.values())

    def __repr__(self):
        return f"{self.kind}({self.name!r})"

"""Graph: nodes wired once, checked, with named parameters."""

from collections import Counter

import numpy as np

from ..errors import CheckpointError, DataError, GraphError
from .nodes.sources import Matrix, Rows, Zeros
from .state import Layout, parse_fields, parse_tables


class Graph:
    """A static graph of IR nodes.

    state: names of the state's integer fields besides `instance`, separated by spaces. Nodes join the graph when they are
    called on outputs of its nodes; `rows`, `matrix` and `zeros` are where instances come in. A state field is 0 at the
    start unless a source numbers (`index`) or counts (`count`) rows in it.

    tables: names of integer data columns that state functions look things up in, separated by spaces.
    """

    def __init__(self, state="", tables=""):
        self.fields = parse_fields(state)
        self.tables = parse_tables(tables)
        self.nodes = []
        self._names = Counter()
        self.initialised, self.replicas = False, 1

    # ---- wiring

    def rows(self, column, width=1, index=None, count=None, name=None):
        """One message for every row of an instance's `column`, each (1, width).

        index: state field that numbers the rows of an instance from 0; count: state field that holds the number of rows,
        in the messages of every source.
        """
        return self._source(Rows(width, column, index, count, name))

    def matrix(self, column, width, count=None, name=None):
        """One message with all rows of an instance's `column`, (rows, width)."""
        return self._source(Matrix(width, column, None, count, name))

    def zeros(self, width, name=None):
        """One message of a single row of zeros, (1, width)."""
        return self._source(Zeros(width, name=name))

    def _source(self, source):
        from .nodes.node import Output
        for field in (source.index_field, source.count_field):
            if field is not None:
                self.field_number(field, f"source of column '{source.column}'")
        self.add(source)
        source.outputs = [Output(source, 0, source.width)]
        return source.outputs[0]

    def add(self, node):
        """Take a node in and name it; called by the node itself."""
        if node.graph is not None:
            raise GraphError(f"'{node.name}' is wired already; make a new {node.kind} for another place")
        if node.name is None:
            base = node.kind.lower()
            self._names[base] += 1
            node.name = f"{base}{self._names[base]}"
        if any(node.name == other.name for other in self.nodes):
            raise GraphError(f"two nodes are called '{node.name}'")
        if "." in node.name:
            raise GraphError(f"node name '{node.name}': a dot separates node and parameter and cannot be part of it")
        node.graph, node.number, node.wired = self, len(self.nodes), True
        self.nodes.append(node)

    def field_number(self, field, what):
        """Position of a state field."""
        if field not in self.fields:
            raise GraphError(f"{what}: the state has no field '{field}'; its fields are: {', '.join(self.fields)}")
        return self.fields.index(field)

    # ---- checks

    def check(self):
        """Raise GraphError where the graph cannot run: called before every run, cheap."""
        if not any(node.is_source for node in self.nodes):
            raise GraphError("the graph has no source: start with Graph.rows, Graph.matrix or Graph.zeros")
        for node in self.nodes:
            for output in node.outputs:
                if output.target is None:
                    raise GraphError(f"dangling port: {output} leads nowhere")
        if not any(node.is_loss for node in self.nodes):
            raise GraphError("the graph has no loss: end it with SoftmaxCrossEntropy or SquaredError")
        reached = self._forward_from(node for node in self.nodes if node.is_source)
        for node in self.nodes:
            if node not in reached:
                raise GraphError(f"'{node.name}' cannot be reached from any source")
        for node in self.nodes:
            node.check_state(self.layout)
            if node.index_field is not None:
                self.field_number(node.index_field, f"'{node.name}'")
        self._fills()

    def _forward_from(self, nodes):
        reached, todo = set(), list(nodes)
        while todo:
            node = todo.pop()
            if node not in reached:
                reached.add(node)
                todo += [output.target[0] for output in node.outputs]
        return reached

    def _fills(self):
        fills = {}
        for node in self.nodes:
            field = getattr(node, "count_field", None)
            if field is not None and fills.setdefault(field, node.column) != node.column:
                raise GraphError(f"state field '{field}' counts two columns, '{fills[field]}' and '{node.column}'")
        return fills

    @property
    def columns(self):
        """Names of the data columns that nodes read, in a fixed order. Behind them a run has the tables."""
        return sorted({name for node in self.nodes for name in node.read_columns})

    @property
    def layout(self):
        """What state functions can name."""
        first = len(self.columns)
        return Layout(self.fields, tuple((name, first + i) for i, name in enumerate(self.tables)))

    def state_fills(self):
        """For each state field the number of the column whose row count fills it, or -1."""
        fills, columns = self._fills(), self.columns
        return [columns.index(fills[field]) if field in fills else -1 for field in self.fields]

    def check_data(self, instances):
        """Raise DataError where the data lack a column or hold a value that some node cannot take."""
        for name in (*self.columns, *self.tables):
            if name not in instances.columns:
                have = ", ".join(sorted(instances.columns)) or "none"
                raise DataError(f"the graph reads column '{name}' but the data have: {have}")
        for name in self.tables:
            if instances.columns[name].integers().shape[1] != 1:
                raise DataError(f"column '{name}' is a table and must have width 1, got {instances.columns[name].width}")
        for node in self.nodes:
            node.check_data(instances.columns)

    # ---- gradients and parameters

    def carriers(self):
        """Nodes whose output carries a gradient: those with parameters, and all behind them."""
        return self._forward_from(node for node in self.nodes if node.parameters)

    def initialise(self, seed=0):
        """Draw new parameter values; each parameter has a random stream of its own. Replicas get the same."""
        for number, node in enumerate(self._originals()):
            for i, parameter in enumerate(node.parameters.values()):
                parameter.initialise(np.random.default_rng([seed, number, i]))
        self.initialised = True
        return self

    def _originals(self):
        """The nodes of the graph as it was wired, in that order: without replicas."""
        return [node for node in self.nodes if node.wired]

    def named_parameters(self):
        """`node.parameter` -> Parameter, in the order of the graph."""
        if not self.initialised:
            self.initialise()
        return {f"{node.name}.{name}": p for node in self._originals() for name, p in node.parameters.items()}

    @property
    def parameters(self):
        """`node.parameter` -> the array itself, float32; writing into it changes the model."""
        return {name: p.value for name, p in self.named_parameters().items()}

    @property
    def parameter_count(self):
        return sum(value.size for value in self.parameters.values())

    def check_parameters(self, arrays, origin="the given arrays"):
        """CheckpointError names the first that is missing, misshapen, of another type, unknown or not finite."""
        mine = self.parameters
        for name, value in mine.items():
            if name not in arrays:
                raise CheckpointError(f"{origin}: parameter '{name}' is missing")
            if arrays[name].shape != value.shape:
                raise CheckpointError(f"{origin}: parameter '{name}' has shape {arrays[name].shape}, expected {value.shape}")
            if arrays[name].dtype != value.dtype:   # a larger number would become infinite
                raise CheckpointError(f"{origin}: parameter '{name}' is of {arrays[name].dtype}, expected {value.dtype}")
            if not np.isfinite(arrays[name]).all():
                raise CheckpointError(f"{origin}: parameter '{name}' holds a value that is not finite")
        for name in arrays:
            if name not in mine:
                raise CheckpointError(f"{origin}: unknown parameter '{name}'")

    def load_parameters(self, arrays, origin="the given arrays"):
        """Copy values in, all of them or, with an error as `check_parameters` has it, none."""
        self.check_parameters(arrays, origin)
        for name, value in self.parameters.items():
            value[...] = arrays[name]

    def save(self, path):
        """Write the parameters to a safetensors file."""
        from safetensors.numpy import save_file
        save_file(self.parameters, str(path))

    def load(self, path):
        """Read the parameters from a safetensors file; raises CheckpointError."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
        try:
            arrays = load_file(str(path))
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{path}: cannot be read: {error}") from error
        self.load_parameters(arrays, str(path))
        return self

    # ---- what it looks like

    def mermaid(self, placement=None):
        """The graph as a Mermaid flowchart; placement: node -> worker, to colour the nodes by."""
        from .drawing import describe, mermaid
        return mermaid(describe(self, placement))

    def __repr__(self):
        size = sum(node.parameter_count for node in self.nodes)
        return f"Graph({len(self.nodes)} nodes, {size:,} parameters)"

"""From a graph to an engine: records filled, ports numbered, nodes placed."""

import numpy as np

from ..errors import GraphError, SettingError
from ..kernels.optimizers import CODES, SCHEDULES
from ..runtime.engine import OPERATIONS, Engine, NodeSpec
from ..runtime.memory import allocate
from ..runtime.message import STATE_FIELDS
from ..runtime.precompile import compile_operations
from ..runtime.update import UNLIMITED
from .placement import balance
from .replicas import average, spread


class Machine:
    """A checked graph laid out on workers, ready to run data. See `Engine` for the options.

    min_update_frequency: gradients (backward messages) a node gathers before it updates itself, times the node's `passes`,
    divided among replicas, so that a model with them updates as often an epoch as one without; None: it never does, and the
    gradients can be read from the parameters. A node's own `min_update_frequency` goes first, as it is. placement: node ->
    worker for every node that does not roam; by default their floating-point operations are balanced.
    """

    def __init__(self, graph, workers=1, min_update_frequency=None, max_batch=128, coalesce=True, trace=0, placement=None):
        graph.check()
        self.graph, self.workers = graph, workers
        graph.named_parameters()
        compile_operations([*OPERATIONS, *(operation for node in graph.nodes for operation in node.operations)])
        spread(graph)
        self.placement = balance(graph, workers) if placement is None else placement
        specs = [self._spec(node, min_update_frequency) for node in graph.nodes]
        fills = graph.state_fills()
        fills += [-1] * (STATE_FIELDS - len(fills))
        self.engine = Engine(specs, workers, fills, max_batch, coalesce, trace, graph.replicas)

    def _spec(self, node, min_update_frequency):
        record = allocate(node.dtype)
        r = record[0]
        frequency = node.min_update_frequency or UNLIMITED
        if min_update_frequency and not node.min_update_frequency:
            frequency = -(-node.passes * min_update_frequency // self.graph.replicas)
        r["worker"] = -1 if node.roaming else self.placement[node]
        r["immediate"], r["transparent"] = node.immediate, node.transparent
        for name in ("forward", "backward", "settle", "refresh", "renew", "late"):
            operation = getattr(node, name)
            r[name] = 0 if operation is None else operation.address
        r["input_gradient"] = node.input_gradient
        r["min_update_frequency"] = frequency
        r["column"] = -1 if node.column is None else self.graph.columns.index(node.column)
        index = node.index_field
        r["index_field"] = -1 if index is None else self.graph.field_number(index, f"'{node.name}'")
        addresses = np.array([p.record.ctypes.data for p in node.parameters.values()] or [0], np.int64)
        r["parameters"], r["parameter_count"] = addresses.ctypes.data, len(node.parameters)
        try:
            alive = (addresses, list(node.parameters.values()), node.fill(r, self.graph))
        except GraphError as error:
            raise GraphError(f"'{node.name}': {error}") from error
        return NodeSpec(
            node.name, record, [(s.node.number, s.port) for s in node.inputs],
            [(o.target[0].number, o.target[1]) for o in node.outputs], node.is_source,
            None if node.refresh is None else node.refresh.ctypes, tuple(node.parameters), alive)

    def optimizer(self, name="sgd", lr=0.01, momentum=0.9, beta2=0.999, epsilon=None, weight_decay=0.0, clip=0.0,
                  schedule="constant", total=0, warmup=0, step_every=0, step_factor=0.1):
        """Choose how nodes update themselves; lengths of the schedule are counted in training instances."""
        if name not in CODES:
            raise SettingError(f"unknown optimizer {name!r}; known: {', '.join(CODES)}")
        if schedule not in SCHEDULES:
            raise SettingError(f"unknown lr schedule {schedule!r}; known: {', '.join(SCHEDULES)}")
        if epsilon is None:
            epsilon = 1e-10 if name == "adagrad" else 1e-8
        o = self.engine.optimizer
        for field, value in (("code", CODES[name]), ("schedule", SCHEDULES[schedule]), ("rate", lr), ("beta1", momentum),
                             ("beta2", beta2), ("epsilon", epsilon), ("decay", weight_decay), ("clip", clip),
                             ("total", total), ("warmup", warmup), ("step_every", step_every),
                             ("step_factor", step_factor)):
            o[field] = value
        for node in self.graph.nodes:
            for parameter in node.parameters.values():
                parameter.use_optimizer(CODES[name])

    def run(self, instances, order=None, row_index=None, predict=False, **options):
        """Run `Instances` (checked against the graph) in an order; options and result as in `Engine.run`.

        predict: also give `Run.predictions`, loss name -> (target rows of its column, its prediction_width) float32, NaN
        where none was made.
        """
        self.graph.check_data(instances)
        columns = [(instances.columns[name].values, instances.columns[name].offsets) for name in self.graph.columns]
        columns += [(instances.columns[name].integers(), instances.columns[name].offsets) for name in self.graph.tables]
        order = np.arange(len(instances)) if order is None else order
        predictions = self._lay_out_predictions(instances) if predict else {}
        try:
            run = self.engine.run(columns, order, row_index=row_index, **options)
        finally:
            for node, spec in zip(self.graph.nodes, self.engine.nodes, strict=True):
                if node.is_loss:
                    spec.record["predictions"] = 0
        run.predictions = predictions
        return run

    def _lay_out_predictions(self, instances):
        """A loss and its copies write into one array."""
        predictions = {}
        for node, spec in zip(self.graph.nodes, self.engine.nodes, strict=True):
            if node.is_loss:
                name = (node.original or node).name
                if name not in predictions:
                    rows = instances.columns[node.column].rows
                    predictions[name] = np.full((rows, node.prediction_width), np.nan, np.float32)
                spec.record["predictions"] = predictions[name].ctypes.data
        return predictions

    def average_replicas(self):
        """Give all copies of a node the mean of their parameters, optimizer states and update counts."""
        average(self.graph)
        self._share_versions(lambda versions: round(sum(versions) / len(versions)))

    def spread_replicas(self):
        """Give all copies of a node what the first has."""
        spread(self.graph)
        self._share_versions(lambda versions: versions[0])

    def _share_versions(self, choose):
        records = {node: spec.record for node, spec in zip(self.graph.nodes, self.engine.nodes, strict=True)}
        for first in self.graph.nodes:
            every = [records[first], *(records[node] for node in self.graph.nodes if node.original is first)]
            if len(every) > 1:
                version = choose([int(record["version"][0]) for record in every])
                for record in every:
                    record["version"] = version

    def forget(self):
        """Drop gathered gradients."""
        self.engine.forget()

    def flush(self):
        """Apply leftover gradients, as at the end of an epoch."""
        self.engine.flush()

    def gather_held(self):
        """Bring the parameters' gradients up to date without an update."""
        for node in self.engine.nodes:
            node.record["gathered"] = 0
        self.engine.flush()

"""Replicas: copies of a model's nodes that learn side by side on different workers.

Everything but the sources is copied, the losses too. A source has an output for each copy: the lane that an instance starts
in says which it goes to, and it stays there, on one worker, from beginning to end. Instances are not dealt out beforehand:
the next one goes where one has come home. Copies start from the same values, update themselves on their own, and are averaged
from time to time (the trainer does, at the end of each epoch). Losses count for themselves, and are added up.
"""

import numpy as np

from ..errors import GraphError
from .nodes.node import Output


def replicate(graph, replicas):
    """Change a graph so that it has `replicas` copies of all nodes but sources; returns the graph.

    Its parameters keep their names, and are those of the first copy.
    """
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 1:
        raise GraphError(f"replicas must be a whole number of at least 1, got {replicas!r}")
    if replicas in (1, graph.replicas):
        return graph
    if graph.replicas != 1:
        raise GraphError(f"the graph has {graph.replicas} replicas already and cannot have {replicas}")
    graph.check()

    originals = [node for node in graph.nodes if not node.is_source]
    copies = {node: [node, *(node.copy(f"{node.name}-{r + 1}", r) for r in range(1, replicas))] for node in originals}
    nodes = []
    for node in graph.nodes:
        nodes += copies.get(node, [node])
        if node.is_source:
            _feed_all(node, copies)
    for node in originals:
        for port, source in enumerate(node.inputs):
            if source.node in copies:
                for copy, before in zip(copies[node][1:], copies[source.node][1:], strict=True):
                    _wire(before.outputs[source.port], copy, port)
    _adopt(graph, nodes)
    graph.replicas = replicas
    return graph


def _wire(output, node, port):
    output.target, node.inputs[port] = (node, port), output


def _feed_all(source, copies):
    """An output of the source for every copy of what it feeds."""
    target, port = source.outputs[0].target
    source.outputs = [Output(source, r, source.width) for r in range(len(copies[target]))]
    for output, copy in zip(source.outputs, copies[target], strict=True):
        _wire(output, copy, port)


def _adopt(graph, nodes):
    for number, node in enumerate(nodes):
        node.graph, node.number = graph, number
    graph.nodes = nodes


def _copies(graph):
    """(first, [the other copies]) of every node that has parameters."""
    others = {}
    for node in graph.nodes:
        if node.original is not None and node.parameters:
            others.setdefault(node.original, []).append(node)
    return others.items()


def spread(graph):
    """Give every copy the values and the optimizer state of the first."""
    for first, others in _copies(graph):
        for name, parameter in first.parameters.items():
            for copy in others:
                for mine, theirs in zip(parameter.arrays, copy.parameters[name].arrays, strict=True):
                    theirs[...] = mine


def average(graph):
    """Give every copy the mean of the values, and of the optimizer states, of all."""
    for first, others in _copies(graph):
        for name, parameter in first.parameters.items():
            for i, array in enumerate(parameter.arrays):
                every = [array, *(copy.parameters[name].arrays[i] for copy in others)]
                mean = sum(a.astype(np.float64) for a in every) / len(every)
                for a in every:
                    a[...] = mean

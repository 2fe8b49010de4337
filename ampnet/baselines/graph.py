"""The gated graph network in PyTorch: a product for each edge type, or one for all, gathered by edge or by a dense matrix."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from .layers import linear, linear_gradients, linear_of, parameter


class GraphNetwork(nn.Module):
    """What `prepare` makes of graphs -> what the readout gives.

    edges: `ByType`, `Gathered` or `Dense`; readout: `Select` or `Regress`; types: edge types, both directions counted.
    """

    def __init__(self, ours, steps, types, edges, readout):
        super().__init__()
        self.hidden, self.steps = len(ours["gru.recurrent"]), steps
        self.edges, self.readout, self.gru = edges(ours, types), readout(ours), gru(ours)

    def prepare(self, graphs, count):
        """graphs: `Graphs`, `count` in number."""
        x = torch.from_numpy(graphs.annotation)
        h = F.pad(x, (0, self.hidden - x.shape[1]))
        return x, h, torch.from_numpy(graphs.graph), count, self.edges.prepare(graphs)

    def forward(self, x, h, graph, count, edges):
        for _ in range(self.steps):
            h = self.gru(self.edges(h, edges), h)
        return self.readout(h, x, graph, count)

    def gradients(self):
        return {**self.edges.gradients(), **gru_gradients(self.gru), **self.readout.gradients()}


# ---- the GRU: ours has columns n, r, z of x and r, z, m of h, and biases n, r, z, m; torch's both have r, z, n


def gru(ours):
    of_x, of_h, bias = ours["gru.weight"], ours["gru.recurrent"], ours["gru.bias"]
    hidden = len(of_h)
    cell = nn.GRUCell(len(of_x), hidden)
    cell.weight_ih, cell.weight_hh = parameter(np.roll(of_x, -hidden, 1).T), parameter(of_h.T)
    cell.bias_ih = parameter(np.roll(bias[:3 * hidden], -hidden))
    cell.bias_hh = parameter(np.concatenate([np.zeros(2 * hidden, np.float32), bias[3 * hidden:]]))
    return cell


def gru_gradients(cell):
    hidden = cell.hidden_size
    of_x, bias = cell.weight_ih.grad.T.roll(hidden, 1), cell.bias_ih.grad.roll(hidden)
    return {"gru.weight": of_x, "gru.recurrent": cell.weight_hh.grad.T,
            "gru.bias": torch.cat([bias, cell.bias_hh.grad[2 * hidden:]])}


# ---- along edges


class ByType(nn.Module):
    """A product for each type, of the nodes from which such an edge leaves, as ours."""

    def __init__(self, ours, types):
        super().__init__()
        self.layers = nn.ModuleList(linear_of(ours, f"edge{k + 1}") for k in range(types))

    def prepare(self, graphs):
        return [self._of_type(graphs, np.flatnonzero(graphs.kind == kind)) for kind in range(len(self.layers))]

    @staticmethod
    def _of_type(graphs, edges):
        """(nodes from which they leave, each once; for each edge the row of its source there; targets)."""
        leaves = np.zeros(len(graphs.graph), bool)
        leaves[graphs.source[edges]] = True
        rows = np.cumsum(leaves)[graphs.source[edges]] - 1
        return torch.from_numpy(np.flatnonzero(leaves)), torch.from_numpy(rows), torch.from_numpy(graphs.target[edges])

    def forward(self, h, edges):
        incoming = torch.zeros_like(h)
        for layer, (sources, rows, targets) in zip(self.layers, edges, strict=True):
            if len(sources):
                incoming = incoming.index_add(0, targets, layer(h[sources])[rows])
        return incoming

    def gradients(self):
        """A type that the batch does not have has no gradient."""
        for layer in self.layers:
            for p in layer.parameters():
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        return {k: v for n, layer in enumerate(self.layers, 1) for k, v in linear_gradients(f"edge{n}", layer).items()}


class AllTypes(nn.Module):
    """One product of all nodes and all types: row `node * types + type` is what leaves a node along that type."""

    def __init__(self, ours, types):
        super().__init__()
        names = [f"edge{k + 1}" for k in range(types)]
        self.types = types
        self.layer = linear(np.hstack([ours[f"{n}.weight"] for n in names]), np.concatenate([ours[f"{n}.bias"] for n in names]))

    def leaving(self, h):
        return self.layer(h).view(-1, h.shape[1])

    def gradients(self):
        weights, biases = self.layer.weight.grad.T.chunk(self.types, 1), self.layer.bias.grad.chunk(self.types)
        return {f"edge{n}.{what}": value for n, values in enumerate(zip(weights, biases, strict=True), 1)
                for what, value in zip(("weight", "bias"), values, strict=True)}


class Gathered(AllTypes):
    def prepare(self, graphs):
        return torch.from_numpy(graphs.source * self.types + graphs.kind), torch.from_numpy(graphs.target)

    def forward(self, h, edges):
        leaving, targets = edges
        return torch.zeros_like(h).index_add(0, targets, self.leaving(h)[leaving])


class Dense(AllTypes):
    """A matrix (nodes, nodes * types) of how many edges there are."""

    def prepare(self, graphs):
        nodes = len(graphs.graph)
        adjacency = np.zeros((nodes, nodes * self.types), np.float32)
        np.add.at(adjacency, (graphs.target, graphs.source * self.types + graphs.kind), 1)
        return torch.from_numpy(adjacency)

    def forward(self, h, adjacency):
        return adjacency @ self.leaving(h)


# ---- readouts


class Select(nn.Module):
    """A score a node, (graphs, nodes); graphs of equal size."""

    def __init__(self, ours):
        super().__init__()
        self.score = linear_of(ours, "score")

    def forward(self, h, x, graph, count):
        return self.score(torch.cat([h, x], 1)).view(count, -1)

    def gradients(self):
        return linear_gradients("score", self.score)


class Regress(nn.Module):
    """A gated sum over nodes and two more layers, (graphs,)."""

    NAMES = ("gate", "value", "layer", "output")

    def __init__(self, ours):
        super().__init__()
        self.gate, self.value, self.layer, self.output = (linear_of(ours, name) for name in self.NAMES)

    def forward(self, h, x, graph, count):
        gated = torch.sigmoid(self.gate(torch.cat([h, x], 1))) * torch.tanh(self.value(h))
        if count == 1:
            vector = gated.sum(0, keepdim=True)
        else:
            vector = gated.new_zeros(count, gated.shape[1]).index_add(0, graph, gated)
        return self.output(torch.relu(self.layer(vector)))[:, 0]

    def gradients(self):
        return {k: v for name in self.NAMES for k, v in linear_gradients(name, getattr(self, name)).items()}

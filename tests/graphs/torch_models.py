"""The models written independently in PyTorch, and gradients stored from them for machines without it.

Each is written from its definition, in float64, for one instance, with loops or recursion over tokens, trees and edges.
`python -m tests.graphs.torch_models` writes torch_gradients.npz anew.
"""

from functools import partial
from pathlib import Path

import numpy as np

from ampnet.datasets import Column, Instances, list_reduction
from ampnet.datasets.edges import fine_columns, fused_columns
from ampnet.graphs import ggnn, mlp, rnn, tree_lstm

STORED = Path(__file__).with_name("torch_gradients.npz")


# ---- data


def sequences():
    return list_reduction.load(seed=5, train=40, valid=1).train


def images():
    rng = np.random.default_rng(5)
    offsets = np.array([0, 20, 25, 26, 60])
    pixels = rng.random((60, 12)).astype(np.float32)
    return Instances({"pixels": Column(pixels, offsets, name="pixels"),
                      "label": Column(rng.integers(0, 4, 60), offsets, name="label")})


def _column(name, arrays):
    return Column(np.concatenate(arrays), np.append(0, np.cumsum([len(a) for a in arrays])), name)


def trees(leaves=(1, 2, 3, 5, 9, 4), vocab=12):
    """Random binary trees with so many leaves each: neighbours are joined until one is left."""
    rng = np.random.default_rng(5)
    rows = {name: [] for name in ("words", "label", "parent", "side", "left", "right")}
    for count in leaves:
        tables = np.full((4, 2 * count - 1), -1)
        parent, side, left, right = tables
        side[:] = 0
        open_nodes = list(range(count))
        for number in range(count, 2 * count - 1):
            i = rng.integers(len(open_nodes) - 1)
            left[number], right[number] = children = open_nodes[i:i + 2]
            parent[children], side[children] = number, (0, 1)
            open_nodes[i:i + 2] = [number]
        found = rng.integers(0, vocab, count), rng.integers(0, 5, 2 * count - 1), *tables
        for name, values in zip(rows, found, strict=True):
            rows[name].append(values)
    return Instances({name: _column(name, arrays) for name, arrays in rows.items()})


def graphs(tied, nodes=(1, 1, 2, 4, 7, 5), annotation=3, kinds=3):
    """Random typed graphs: the first has no edge, nor has the last node of the larger ones; all others have a loop and an
    edge twice; the last of several types is not used. `typed_edges` has a row (source, target, type) an edge.
    """
    rng = np.random.default_rng(5)
    rows = []
    for number, n in enumerate(nodes):
        linked = n - 1 if n > 3 else n
        ends = rng.integers(0, linked, (2 * n, 2))
        typed = np.column_stack([ends, rng.integers(0, max(kinds - 1, 1), len(ends))])
        loop = [[linked - 1, linked - 1, 0]]
        rows.append(np.concatenate([typed, loop, typed[:1]]) if number else np.zeros((0, 3), int))
    offsets = np.append(0, np.cumsum(nodes))
    edges = _column("typed_edges", rows)
    given = offsets, edges.offsets, *np.concatenate(rows).T, kinds, tied
    return Instances({
        "annotation": Column(rng.standard_normal((offsets[-1], annotation)), offsets, "annotation"),
        "answer": Column(rng.integers(0, nodes), name="answer"),
        "target": Column(rng.standard_normal(len(nodes)), name="target"),
        "typed_edges": edges, **fused_columns(*given), **fine_columns(*given),
    })


# ---- small models of ours


def small_rnn():
    return rnn(embedding=8, hidden=16).initialise(3)


def small_mlp():
    return mlp(12, 4, hidden=10, layers=4).initialise(3)


def with_biases(graph, seed=3):
    """Initialised, and with biases that are not 0, so that one in a wrong place is noticed."""
    rng = np.random.default_rng(seed)
    for name, value in graph.initialise(seed).parameters.items():
        if name.endswith(".bias"):
            value[...] += 0.3 * rng.standard_normal(value.shape)
    return graph


def small_lstm():
    return with_biases(rnn(embedding=8, hidden=6, cell="lstm"))


def small_tree():
    return with_biases(tree_lstm(12, embedding=6, hidden=7))


def small_ggnn(readout, edge_types, steps=4, form="fused"):
    return with_biases(ggnn(3, edge_types, 8, steps, readout, unit=3.0, form=form))


# ---- the models in PyTorch: parameters, columns of one instance -> loss of each row


def _whole(rows):
    return rows[:, 0].astype(int).tolist()


def _cross_entropy(logits, labels):
    import torch
    return torch.logsumexp(logits, dim=1) - logits[torch.arange(len(labels)), torch.tensor(labels)]


def torch_rnn(p, one):
    import torch
    h = torch.zeros(1, p["cell.bias"].shape[0], dtype=torch.float64)
    for token in _whole(one["tokens"]):
        x = torch.nn.functional.embedding(torch.tensor([token]), p["embedding.weight"])
        h = torch.relu(torch.cat([x, h], dim=1) @ p["cell.weight"] + p["cell.bias"])
    return _cross_entropy(h @ p["classifier.weight"] + p["classifier.bias"], _whole(one["label"]))


def torch_mlp(p, one):
    import torch
    x, layers = torch.tensor(one["pixels"].astype(np.float64)), len(p) // 2
    for n in range(1, layers + 1):
        x = x @ p[f"linear{n}.weight"] + p[f"linear{n}.bias"]
        x = torch.relu(x) if n < layers else x
    return _cross_entropy(x, _whole(one["label"]))


def lstm_cell(p, x, h, c):
    import torch
    i, o, f, u = (x @ p["cell.weight"] + h @ p["cell.recurrent"] + p["cell.bias"]).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(u)
    return torch.sigmoid(o) * torch.tanh(c), c


def torch_lstm(p, one):
    import torch
    h = c = torch.zeros(p["cell.recurrent"].shape[0], dtype=torch.float64)
    for token in _whole(one["tokens"]):
        h, c = lstm_cell(p, p["embedding.weight"][token], h, c)
    return _cross_entropy((h @ p["classifier.weight"] + p["classifier.bias"])[None], _whole(one["label"]))


def torch_tree(p, one):
    import torch
    words, labels, left, right = (_whole(one[name]) for name in ("words", "label", "left", "right"))
    losses = []

    def value(node):
        if left[node] < 0:
            i, o, u = (p["embedding.weight"][words[node]] @ p["leaf.weight"] + p["leaf.bias"]).chunk(3)
            c = torch.sigmoid(i) * torch.tanh(u)
        else:
            (h_l, c_l), (h_r, c_r) = value(left[node]), value(right[node])
            i, o, f_l, f_r, u = (h_l @ p["branch.left"] + h_r @ p["branch.right"] + p["branch.bias"]).chunk(5)
            c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f_l) * c_l + torch.sigmoid(f_r) * c_r
        h = torch.sigmoid(o) * torch.tanh(c)
        losses.append(_cross_entropy((h @ p["classifier.weight"] + p["classifier.bias"])[None], [labels[node]]))
        return h, c

    value(len(labels) - 1)
    assert len(losses) == len(labels)
    return torch.cat(losses)


def gru_cell(p, x, h):
    import torch
    (x_n, x_r, x_z), (h_r, h_z, h_m) = (x @ p["gru.weight"]).chunk(3), (h @ p["gru.recurrent"]).chunk(3)
    b_n, b_r, b_z, b_m = p["gru.bias"].chunk(4)
    r, z = torch.sigmoid(x_r + h_r + b_r), torch.sigmoid(x_z + h_z + b_z)
    n = torch.tanh(x_n + b_n + r * (h_m + b_m))
    return (1 - z) * n + z * h


def torch_ggnn(p, one, readout, tied, steps=4):
    import torch
    x = torch.tensor(one["annotation"].astype(np.float64))
    nodes, hidden = len(x), p["gru.recurrent"].shape[0]
    types = sum(name.startswith("edge") and name.endswith(".weight") for name in p)
    edges = []
    for source, target, kind in one["typed_edges"].astype(int).tolist():
        edges += [(source, target, kind), (target, source, kind if tied else kind + types // 2)]
    h = [torch.cat([row, torch.zeros(hidden - len(row), dtype=torch.float64)]) for row in x]
    for _ in range(steps):
        incoming = [torch.zeros(hidden, dtype=torch.float64) for _ in range(nodes)]
        for source, target, kind in edges:
            incoming[target] = incoming[target] + h[source] @ p[f"edge{kind + 1}.weight"] + p[f"edge{kind + 1}.bias"]
        h = [gru_cell(p, incoming[v], h[v]) for v in range(nodes)]
    both = [torch.cat([h[v], x[v]]) for v in range(nodes)]
    if readout == "select":
        scores = torch.stack([both[v] @ p["score.weight"] + p["score.bias"] for v in range(nodes)])
        return _cross_entropy(scores.T, _whole(one["answer"]))
    gates = [torch.sigmoid(both[v] @ p["gate.weight"] + p["gate.bias"]) for v in range(nodes)]
    vector = sum(gates[v] * torch.tanh(h[v] @ p["value.weight"] + p["value.bias"]) for v in range(nodes))
    total = torch.relu(vector @ p["layer.weight"] + p["layer.bias"]) @ p["output.weight"] + p["output.bias"]
    return 0.5 * (total - torch.tensor(one["target"][0].astype(np.float64))) ** 2


# ---- all of them, by name: ours with its data, torch's

READOUTS = ("select", "regression")
CASES = {"rnn": (small_rnn, sequences), "mlp": (small_mlp, images),
         "lstm": (small_lstm, sequences), "tree": (small_tree, trees)}
TORCH = {"rnn": torch_rnn, "mlp": torch_mlp, "lstm": torch_lstm, "tree": torch_tree}
for _readout in READOUTS:
    for _name, _tied, _steps in (("tied", True, 4), ("untied", False, 4), ("one_step", True, 1)):
        _kind = f"ggnn_{_readout}_{_name}"
        CASES[_kind] = partial(small_ggnn, _readout, 3 if _tied else 6, _steps), partial(graphs, _tied)
        TORCH[_kind] = partial(torch_ggnn, readout=_readout, tied=_tied, steps=_steps)


def torch_results(kind, graph, data):
    """"loss", summed over rows, and name -> float64 gradient, summed over instances of the mean loss of each message."""
    import torch
    p = {k: torch.tensor(v.astype(np.float64), requires_grad=True) for k, v in graph.parameters.items()}
    losses = [TORCH[kind](p, {name: column[i] for name, column in data.columns.items()}) for i in range(len(data))]
    sum(rows.mean() if kind == "mlp" else rows.sum() for rows in losses).backward()
    gradients = {k: np.zeros(v.shape) if v.grad is None else v.grad.numpy() for k, v in p.items()}   # None: not used
    return {"loss": float(sum(rows.sum() for rows in losses).detach()), **gradients}


def torch_gradients(kind, graph, data):
    """name -> float64 gradient, summed over instances of the mean loss of each message."""
    return {name: value for name, value in torch_results(kind, graph, data).items() if name != "loss"}


if __name__ == "__main__":
    np.savez_compressed(STORED, **{f"{kind}/{name}": np.float32(g) for kind, (graph, data) in CASES.items()
                                   for name, g in torch_results(kind, graph(), data()).items()})

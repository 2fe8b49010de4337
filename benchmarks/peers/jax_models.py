"""The models in JAX, jitted. The compiler must know all shapes: lists are bucketed by length, trees and graphs are padded."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ampnet.baselines.batches import GraphSet

from .batches import consecutive, of_equal_length, whole
from .contest import Batch
from .jax_peer import contestant, copied, cross_entropy, descend, from_update, on_device

LEAVES = 8                          # a tree is padded to a multiple of so many leaves,
NODES, EDGES = (8, 32), (16, 64)    # a graph alone, and several together, to a multiple of so many nodes and edges


# ---- perceptron


def perceptron(name, sample, ours, work):
    count = len(ours) // 2

    def loss(p, x, labels):
        for n in range(1, count):
            x = jax.nn.relu(x @ p[f"linear{n}.weight"] + p[f"linear{n}.bias"])
        return cross_entropy(x @ p[f"linear{count}.weight"] + p[f"linear{count}.bias"], labels).mean()

    batches = []
    for i in range(len(sample.instances)):
        pixels, labels = sample.arrays("pixels", [i])[0], whole(sample.arrays("label", [i]))
        batches.append(Batch([i], len(labels), on_device(pixels, labels)))
    return contestant(name, ours, loss, batches, work.optimizer, work.lr)


# ---- recurrent network


def recurrent(name, sample, ours, work):
    """The inputs' half of the cell for all steps at once; one program for each length."""
    width = ours["embedding.weight"].shape[1]
    own = {k: v for k, v in ours.items() if k != "cell.weight"}
    own |= {"inputs": ours["cell.weight"][:width], "recurrent": ours["cell.weight"][width:]}

    def loss(p, tokens, labels):
        x = p["embedding.weight"][tokens] @ p["inputs"] + p["cell.bias"]
        h = jax.nn.relu(x[0])
        for step in range(1, len(tokens)):
            h = jax.nn.relu(x[step] + h @ p["recurrent"])
        return cross_entropy(h @ p["classifier.weight"] + p["classifier.bias"], labels).mean()

    def as_ours(found):
        joined = np.concatenate([found["inputs"], found["recurrent"]])
        return {k: v for k, v in found.items() if k in ours} | {"cell.weight": joined}

    batches = []
    for numbers in of_equal_length(sample.instances["tokens"].offsets, work.batch):
        tokens = whole(sample.arrays("tokens", numbers)).reshape(len(numbers), -1)
        batches.append(Batch(numbers, len(numbers), on_device(tokens.T, whole(sample.arrays("label", numbers)))))
    return contestant(name, own, loss, batches, work.optimizer, work.lr, as_ours)


# ---- Tree-LSTM, one tree at a time


def tree_lstm(name, sample, ours, work):
    """Leaves at once, then a scan over branches, children first, in a buffer of all values. Plain SGD, sparse in embeddings."""
    words_table = ours["embedding.weight"]
    own = {k: v for k, v in ours.items() if k not in ("embedding.weight", "branch.left", "branch.right")}
    own["branch.weight"] = np.concatenate([ours["branch.left"], ours["branch.right"]])
    of_words_and_rest = partial(_tree_loss, hidden=len(ours["branch.left"]))

    @partial(jax.jit, donate_argnums=0)
    def update(state, words, *tree):
        table, rest = state
        of_words, of_rest = jax.grad(of_words_and_rest, (0, 1))(table[words], rest, *tree)
        return table.at[words].add(-work.lr * of_words), descend(rest, of_rest, work.lr)

    @jax.jit
    def value_and_gradients(table, rest, words, *tree):
        value, (of_words, of_rest) = jax.value_and_grad(of_words_and_rest, (0, 1))(table[words], rest, *tree)
        return value, jnp.zeros_like(table).at[words].add(of_words), of_rest

    def gradients():
        value, of_table, found = value_and_gradients(words_table, own, *batches[0].arrays)
        left, right = np.split(np.asarray(found.pop("branch.weight")), 2)
        return float(value), {"embedding.weight": of_table, "branch.left": left, "branch.right": right, **found}

    batches = [Batch([i], 1, on_device(*_padded_tree(sample, i))) for i in range(len(sample.instances))]
    return from_update(name, copied((words_table, own)), update, batches, gradients)


def _padded_tree(sample, number):
    """(words, children of each branch, labels, and 1 for each node that is not padding); leaves, padding, branches, padding."""
    words, labels, left, right = (whole(sample.arrays(name, [number])) for name in ("words", "label", "left", "right"))
    leaves = len(words)
    padded = -(-leaves // LEAVES) * LEAVES
    place = np.append(np.arange(leaves), padded + np.arange(leaves - 1))
    children = np.zeros((padded - 1, 2), np.int32)
    children[:leaves - 1] = place[np.column_stack([left, right])[leaves:]]
    all_labels, real = np.zeros(2 * padded - 1, np.int32), np.zeros(2 * padded - 1, np.float32)
    all_labels[place], real[place] = labels, 1
    return np.append(words, np.zeros(padded - leaves, int)), children, all_labels, real


def _tree_loss(x, p, children, labels, real, hidden):
    i, o, u = jnp.split(x @ p["leaf.weight"] + p["leaf.bias"], 3, 1)
    c = jax.nn.sigmoid(i) * jnp.tanh(u)
    leaves = jnp.stack([jax.nn.sigmoid(o) * jnp.tanh(c), c], 1)
    values = jnp.concatenate([leaves, jnp.zeros((len(children), 2, hidden))])

    def branch(values, step):
        node, (left, right) = step
        (h_left, c_left), (h_right, c_right) = values[left], values[right]
        gates = jnp.concatenate([h_left, h_right]) @ p["branch.weight"] + p["branch.bias"]
        i, o, f_left, f_right = jnp.split(jax.nn.sigmoid(gates[:4 * hidden]), 4)
        c = i * jnp.tanh(gates[4 * hidden:]) + f_left * c_left + f_right * c_right
        return jax.lax.dynamic_update_index_in_dim(values, jnp.stack([o * jnp.tanh(c), c]), node, 0), None

    values, _ = jax.lax.scan(branch, values, (jnp.arange(len(x), len(values)), children))
    return (cross_entropy(values[:, 0] @ p["classifier.weight"] + p["classifier.bias"], labels) * real).sum()


# ---- gated graph network


def graph_network(name, sample, ours, work, form, batch):
    """Graphs of a batch as one, padded; what padding sends or reads lands outside and is dropped."""
    types, steps, hidden = sample.meta["edge_types"], sample.options["steps"], len(ours["gru.recurrent"])
    edge_names = [f"edge{k + 1}" for k in range(types)]
    own = {k: v for k, v in ours.items() if not k.startswith("edge")}
    own["edges.weight"] = np.hstack([ours[f"{n}.weight"] for n in edge_names])
    own["edges.bias"] = np.concatenate([ours[f"{n}.bias"] for n in edge_names])
    readout, column = (_select, "answer") if "answer" in sample.instances.columns else (_regress, "target")

    def incoming(p, h, edges):
        leaving = (h @ p["edges.weight"] + p["edges.bias"]).reshape(-1, hidden)
        if form == "dense":
            return edges[0] @ leaving
        return jnp.zeros_like(h).at[edges[1]].add(leaving[edges[0]], mode="drop")

    def loss(p, x, graph, wanted, *edges):
        h = jnp.pad(x, ((0, 0), (0, hidden - x.shape[1])))
        for _ in range(steps):
            h = _gru(p, incoming(p, h, edges), h)
        return readout(p, h, x, graph, wanted)

    def as_ours(found):
        weights, biases = np.split(found["edges.weight"], types, 1), np.split(found["edges.bias"], types)
        of_edges = {f"{n}.weight": w for n, w in zip(edge_names, weights, strict=True)}
        of_edges |= {f"{n}.bias": b for n, b in zip(edge_names, biases, strict=True)}
        return of_edges | {k: v for k, v in found.items() if k in ours}

    def nodes_and_edges(graphs, source):
        """Padded; nodes are not where graphs are of equal size."""
        several = batch > 1
        nodes = len(graphs.graph) if column == "answer" else _round_up(len(graphs.graph), NODES[several])
        return nodes, _round_up(len(source), EDGES[several])

    batches, every = [], GraphSet(sample.instances, types)
    for numbers in consecutive(len(sample.instances), batch):
        graphs, wanted = every.join(numbers), np.concatenate(sample.arrays(column, numbers))[:, 0]
        source, target, kind = graphs.source, graphs.target, graphs.kind
        nodes, edges = nodes_and_edges(graphs, source)
        missing = nodes - len(graphs.graph)
        x = np.pad(graphs.annotation, ((0, missing), (0, 0)))
        graph = np.pad(graphs.graph, (0, missing), constant_values=batch)   # of no graph
        if form == "dense":
            along = [np.zeros((nodes, nodes * types), np.float32)]
            np.add.at(along[0], (target, source * types + kind), 1)
        else:
            missing = edges - len(source)
            along = [np.pad(source * types + kind, (0, missing)), np.pad(target, (0, missing), constant_values=nodes)]
        wanted = wanted.astype(int) if column == "answer" else wanted
        batches.append(Batch(numbers, len(numbers), on_device(x, graph, wanted, *along)))
    return contestant(name, own, loss, batches, work.optimizer, work.lr, as_ours)


def _round_up(number, step):
    return -(-number // step) * step


def _gru(p, incoming, h):
    hidden = h.shape[1]
    n, r, z = jnp.split(incoming @ p["gru.weight"] + p["gru.bias"][:3 * hidden], 3, 1)
    h_r, h_z, h_m = jnp.split(h @ p["gru.recurrent"], 3, 1)
    r, z = jax.nn.sigmoid(r + h_r), jax.nn.sigmoid(z + h_z)
    n = jnp.tanh(n + r * (h_m + p["gru.bias"][3 * hidden:]))
    return (1 - z) * n + z * h


def _linear(p, name, x):
    return x @ p[f"{name}.weight"] + p[f"{name}.bias"]


def _select(p, h, x, graph, answers):
    """Graphs of equal size, without padding."""
    scores = _linear(p, "score", jnp.concatenate([h, x], 1)).reshape(len(answers), -1)
    return cross_entropy(scores, answers).mean()


def _regress(p, h, x, graph, targets):
    gated = jax.nn.sigmoid(_linear(p, "gate", jnp.concatenate([h, x], 1))) * jnp.tanh(_linear(p, "value", h))
    if len(targets) == 1:
        vector = jnp.where(graph[:, None] == 0, gated, 0).sum(0, keepdims=True)
    else:
        vector = jnp.zeros((len(targets), h.shape[1])).at[graph].add(gated, mode="drop")
    found = _linear(p, "output", jax.nn.relu(_linear(p, "layer", vector)))[:, 0]
    return 0.5 * ((found - targets) ** 2).mean()

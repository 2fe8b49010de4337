"""The two models written independently in PyTorch, and gradients stored from them for machines without it.

`python -m tests.graphs.torch_models` writes torch_gradients.npz anew.
"""

from pathlib import Path

import numpy as np

from ampnet.datasets import Column, Instances, list_reduction
from ampnet.graphs import mlp, rnn

STORED = Path(__file__).with_name("torch_gradients.npz")


def sequences():
    return list_reduction.load(seed=5, train=40, valid=1).train


def images():
    rng = np.random.default_rng(5)
    offsets = np.array([0, 20, 25, 26, 60])
    pixels = rng.random((60, 12)).astype(np.float32)
    return Instances({"pixels": Column(pixels, offsets, name="pixels"),
                      "label": Column(rng.integers(0, 4, 60), offsets, name="label")})


def small_rnn():
    return rnn(embedding=8, hidden=16).initialise(3)


def small_mlp():
    return mlp(12, 4, hidden=10, layers=4).initialise(3)


CASES = {"rnn": (small_rnn, sequences), "mlp": (small_mlp, images)}


def torch_gradients(kind, graph, data):
    """name -> float64 gradient, summed over instances of the mean loss of each."""
    import torch
    p = {k: torch.tensor(v.astype(np.float64), requires_grad=True) for k, v in graph.parameters.items()}
    total = 0
    for i in range(len(data)):
        label = torch.tensor(data.columns["label"][i][:, 0].astype(int))
        if kind == "rnn":
            h = torch.zeros(1, p["cell.bias"].shape[0], dtype=torch.float64)
            for token in data.columns["tokens"][i][:, 0].astype(int):
                x = torch.nn.functional.embedding(torch.tensor([token]), p["embedding.weight"])
                h = torch.relu(torch.cat([x, h], dim=1) @ p["cell.weight"] + p["cell.bias"])
            logits = h @ p["classifier.weight"] + p["classifier.bias"]
        else:
            x, layers = torch.tensor(data.columns["pixels"][i].astype(np.float64)), len(p) // 2
            for n in range(1, layers + 1):
                x = x @ p[f"linear{n}.weight"] + p[f"linear{n}.bias"]
                x = torch.relu(x) if n < layers else x
            logits = x
        total = total + torch.nn.functional.cross_entropy(logits, label)
    total.backward()
    return {k: v.grad.numpy() for k, v in p.items()}


if __name__ == "__main__":
    np.savez_compressed(STORED, **{f"{kind}/{name}": g.astype(np.float32) for kind, (graph, data) in CASES.items()
                                   for name, g in torch_gradients(kind, graph(), data()).items()})

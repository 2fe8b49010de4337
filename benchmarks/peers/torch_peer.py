"""What the PyTorch peers share: linear layers with our values, and the training loop."""

import numpy as np
import torch
from torch import nn

from .contest import Contestant, in_turn


def contestant(name, model, batches, optimizer, lr):
    """Trains `model`, whose call gives the mean loss of a batch; model.gradients() are named and laid out as ours."""
    optimizers = _optimizers(model, optimizer, lr)

    def gradients():
        for one in optimizers:
            one.zero_grad()
        loss = model(*batches[0].arrays)
        loss.backward()
        return loss.item(), {name: as_array(value) for name, value in model.gradients().items()}

    def train(*arrays):
        for one in optimizers:
            one.zero_grad()
        model(*arrays).backward()
        for one in optimizers:
            one.step()

    def finite():
        return all(p.isfinite().all() for p in model.parameters())

    return Contestant(name, in_turn(batches, train), gradients, batches[0].instances, finite=finite)


def _optimizers(model, optimizer, lr):
    """Fused ones; embeddings with sparse gradients take plain SGD, which has no fused form for them."""
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer]
    sparse = [p for m in model.modules() if isinstance(m, nn.Embedding) and m.sparse for p in m.parameters()]
    dense = [p for p in model.parameters() if not any(p is s for s in sparse)]
    return [kind(dense, lr=lr, fused=True)] + ([torch.optim.SGD(sparse, lr=lr)] if sparse else [])


def as_array(gradient):
    return (gradient.to_dense() if gradient.is_sparse else gradient).numpy()


def parameter(array):
    return nn.Parameter(torch.tensor(np.ascontiguousarray(array)))


def linear(weight, bias):
    """A layer with our values: weight (inputs, outputs)."""
    layer = nn.Linear(*weight.shape)
    layer.weight, layer.bias = parameter(weight.T), parameter(bias)
    return layer


def linear_of(ours, name):
    return linear(ours[f"{name}.weight"], ours[f"{name}.bias"])


def linear_gradients(name, layer):
    return {f"{name}.weight": layer.weight.grad.T, f"{name}.bias": layer.bias.grad}


def embedding(ours, sparse):
    return nn.Embedding.from_pretrained(torch.tensor(ours["embedding.weight"]), freeze=False, sparse=sparse)

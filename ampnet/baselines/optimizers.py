"""Optimizers of a PyTorch model, by our names: fused ones, and others for embeddings with sparse gradients."""

import torch
from torch import nn

FUSED = {"sgd": torch.optim.SGD, "momentum": torch.optim.SGD, "adagrad": torch.optim.Adagrad, "adam": torch.optim.Adam}
SPARSE = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad}


def takes_sparse(name, weight_decay=0.0, clip=0.0):
    """Whether gradients may be sparse: others need dense ones, and so do decay and norms."""
    return name in SPARSE and not weight_decay and not clip


def optimizers_of(model, name, lr, momentum=0.9, weight_decay=0.0):
    """One for all parameters, or two where embeddings have sparse gradients, which fused ones do not take."""
    sparse = [p for m in model.modules() if isinstance(m, nn.Embedding) and m.sparse for p in m.parameters()]
    dense = [p for p in model.parameters() if not any(p is s for s in sparse)]
    own = {"momentum": momentum} if name == "momentum" else {}
    found = [FUSED[name](dense, lr=lr, weight_decay=weight_decay, fused=True, **own)]
    return found + ([SPARSE[name](sparse, lr=lr)] if sparse else [])

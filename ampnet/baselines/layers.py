"""Layers of PyTorch that start from values of ours, and their gradients laid out as ours."""

import numpy as np
import torch
from torch import nn


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

"""The perceptron and the recurrent network in PyTorch."""

import torch
from torch import nn
from torch.nn import functional as F

from .layers import embedding, linear_gradients, linear_of, parameter


class Perceptron(nn.Module):
    """Pixels (images, width) -> logits (images, classes)."""

    def __init__(self, ours):
        super().__init__()
        self.linear = [linear_of(ours, f"linear{n}") for n in range(1, len(ours) // 2 + 1)]
        steps = [step for layer in self.linear for step in (layer, nn.ReLU())]
        self.layers = nn.Sequential(*steps[:-1])

    def forward(self, pixels):
        return self.layers(pixels)

    def gradients(self):
        return {k: v for n, layer in enumerate(self.linear, 1) for k, v in linear_gradients(f"linear{n}", layer).items()}


class Recurrent(nn.Module):
    """Tokens (length, lists) -> logits (lists, classes). What the three forms share: embedding before, classifier behind."""

    def __init__(self, ours):
        super().__init__()
        self.embedding, self.classifier = embedding(ours, sparse=False), linear_of(ours, "classifier")
        self.width = self.embedding.embedding_dim

    def forward(self, tokens):
        return self.classifier(self.last_hidden(self.embedding(tokens)))

    def gradients(self):
        weight, bias = self.cell_gradients()
        return {"embedding.weight": self.embedding.weight.grad, "cell.weight": weight, "cell.bias": bias,
                **linear_gradients("classifier", self.classifier)}


class Concatenated(Recurrent):
    """relu([x | h] W + b), step by step."""

    def __init__(self, ours):
        super().__init__(ours)
        self.cell = linear_of(ours, "cell")

    def last_hidden(self, x):
        h = x.new_zeros(x.shape[1], self.cell.out_features)
        for step in x:
            h = torch.relu(self.cell(torch.cat([step, h], 1)))
        return h

    def cell_gradients(self):
        return self.cell.weight.grad.T, self.cell.bias.grad


class Split(Concatenated):
    """The inputs' half of the product for all steps at once, before the loop."""

    def last_hidden(self, x):
        weight = self.cell.weight
        inputs = F.linear(x, weight[:, :self.width], self.cell.bias)
        recurrent = weight[:, self.width:].t()
        h = torch.relu(inputs[0])
        for step in inputs[1:]:
            h = torch.relu(torch.addmm(step, h, recurrent))
        return h


class Library(Recurrent):
    """torch.nn.RNN, whose second bias is 0."""

    def __init__(self, ours):
        super().__init__(ours)
        weight, bias = ours["cell.weight"], ours["cell.bias"]
        self.rnn = nn.RNN(self.width, len(bias), nonlinearity="relu")
        self.rnn.weight_ih_l0, self.rnn.weight_hh_l0 = parameter(weight[:self.width].T), parameter(weight[self.width:].T)
        self.rnn.bias_ih_l0, self.rnn.bias_hh_l0 = parameter(bias), parameter(0 * bias)

    def last_hidden(self, x):
        return self.rnn(x)[1][0]

    def cell_gradients(self):
        weight = torch.cat([self.rnn.weight_ih_l0.grad, self.rnn.weight_hh_l0.grad], 1)
        return weight.T, self.rnn.bias_ih_l0.grad

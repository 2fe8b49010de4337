"""The binary Tree-LSTM in PyTorch, three ways: a node at a time, a level at a time, and that with a backward by hand."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from .layers import embedding, linear, linear_gradients, linear_of


class TreeLSTM(nn.Module):
    """What `prepare` makes of trees -> logits (nodes, classes), in the order of the labels that `prepare` gives.

    What all three forms share. Gates lie as ours do: i, o, u in a leaf, i, o, f left, f right, u in a branch. dropout: rate on
    the embeddings and before the classifier; sparse: only rows of the embedding that occur have gradients.
    """

    def __init__(self, ours, dropout=0.0, sparse=True):
        super().__init__()
        self.dropout, self.embedding = dropout, embedding(ours, sparse)
        self.classifier = linear_of(ours, "classifier")
        self.leaf = linear_of(ours, "leaf")
        self.branch = linear(np.concatenate([ours["branch.left"], ours["branch.right"]]), ours["branch.bias"])
        self.hidden = len(ours["branch.left"])

    def forward(self, *prepared):
        return self.classifier(self.drop(self.hidden_values(*prepared)))

    def drop(self, values):
        return F.dropout(values, self.dropout, self.training) if self.dropout else values

    def leaf_cell(self, words):
        i_o, u = self.leaf(self.drop(self.embedding(words))).split([2 * self.hidden, self.hidden], 1)
        i, o = torch.sigmoid(i_o).chunk(2, 1)
        c = i * torch.tanh(u)
        return o * torch.tanh(c), c

    def branch_cell(self, h_both, c_left, c_right):
        gates, u = self.branch(h_both).split([4 * self.hidden, self.hidden], 1)
        i, o, f_left, f_right = torch.sigmoid(gates).chunk(4, 1)
        c = i * torch.tanh(u) + f_left * c_left + f_right * c_right
        return o * torch.tanh(c), c

    def gradients(self):
        left, right = self.branch.weight.grad.T.chunk(2)
        return {"embedding.weight": self.embedding.weight.grad, **linear_gradients("leaf", self.leaf),
                "branch.left": left, "branch.right": right, "branch.bias": self.branch.bias.grad,
                **linear_gradients("classifier", self.classifier)}


class Recursive(TreeLSTM):
    """A node at a time, tree by tree, as it is written down first."""

    def prepare(self, forest, numbers):
        trees, labels = [], []
        for number in numbers:
            nodes = slice(*forest.offsets[number:number + 2])
            words = torch.from_numpy(forest.words[slice(*forest.word_offsets[number:number + 2])])
            trees.append((list(words.split(1)), forest.left[nodes].tolist(), forest.right[nodes].tolist()))
            labels.append(forest.labels[nodes])
        return (trees,), torch.from_numpy(np.concatenate(labels))

    def hidden_values(self, trees):
        h = []
        for tree in trees:
            values = {}
            self.value(len(tree[1]) - 1, *tree, values)
            h += [values[node][0] for node in range(len(values))]
        return torch.cat(h)

    def value(self, node, words, left, right, values):
        if left[node] < 0:
            values[node] = self.leaf_cell(words[node])
        else:
            h_left, c_left = self.value(left[node], words, left, right, values)
            h_right, c_right = self.value(right[node], words, left, right, values)
            values[node] = self.branch_cell(torch.cat([h_left, h_right], 1), c_left, c_right)
        return values[node]


class ByLevel(TreeLSTM):
    """All nodes of a level at once. Between levels only the values stay that a later one takes."""

    def prepare(self, forest, numbers):
        plan = forest.levels(numbers)
        waiting, steps = np.arange(plan.leaves), []
        for start, end, left, right in plan.levels:
            place = np.full(start, -1)
            place[waiting] = np.arange(len(waiting))
            rest = waiting[~np.isin(waiting, np.concatenate([left, right]))]
            steps.append([torch.from_numpy(place[nodes]) for nodes in (left, right, rest)])
            waiting = np.concatenate([rest, np.arange(start, end)])
        return (torch.from_numpy(plan.words), steps), torch.from_numpy(plan.labels)

    def hidden_values(self, words, steps):
        h, c = self.leaf_cell(words)
        every, values = [h], torch.cat([h, c], 1)
        for left, right, rest in steps:
            (h_left, c_left), (h_right, c_right) = (values[nodes].chunk(2, 1) for nodes in (left, right))
            h, c = self.branch_cell(torch.cat([h_left, h_right], 1), c_left, c_right)
            every.append(h)
            new = torch.cat([h, c], 1)
            values = torch.cat([values[rest], new]) if len(rest) else new
        return torch.cat(every)


class ByHand(TreeLSTM):
    """The same with one autograd function for all cells, which keeps what its backward takes: an expert's version."""

    def prepare(self, forest, numbers):
        plan = forest.levels(numbers)
        levels = [(slice(start, end), torch.from_numpy(left), torch.from_numpy(right))
                  for start, end, left, right in plan.levels]
        return (torch.from_numpy(plan.words), levels), torch.from_numpy(plan.labels)

    def hidden_values(self, words, levels):
        leaf, branch, x = self.leaf, self.branch, self.drop(self.embedding(words))
        nodes = levels[-1][0].stop if levels else len(words)
        return AllCells.apply(x, leaf.weight, leaf.bias, branch.weight, branch.bias, levels, nodes)


class AllCells(torch.autograd.Function):
    """h of all nodes, level by level, from the leaves' x."""

    @staticmethod
    def forward(ctx, x, leaf_weight, leaf_bias, branch_weight, branch_bias, levels, nodes):
        leaves, H = len(x), len(leaf_bias) // 3
        h, c, t = (x.new_empty(nodes, H) for _ in range(3))   # t = tanh(c)
        below = torch.addmm(leaf_bias, x, leaf_weight.t())
        below[:, :2 * H].sigmoid_()
        below[:, 2 * H:].tanh_()
        torch.mul(below[:, :H], below[:, 2 * H:], out=c[:leaves])
        torch.tanh(c[:leaves], out=t[:leaves])
        torch.mul(below[:, H:2 * H], t[:leaves], out=h[:leaves])
        gates, h_both, c_both = (x.new_empty(nodes - leaves, n * H) for n in (5, 2, 2))
        for level, left, right in levels:
            inner = slice(level.start - leaves, level.stop - leaves)
            h_in, c_in = h_both[inner], c_both[inner]
            h_in[:, :H], h_in[:, H:] = h[left], h[right]
            c_in[:, :H], c_in[:, H:] = c[left], c[right]
            g = torch.addmm(branch_bias, h_in, branch_weight.t(), out=gates[inner])
            g[:, :4 * H].sigmoid_()
            g[:, 4 * H:].tanh_()
            new = torch.mul(g[:, :H], g[:, 4 * H:], out=c[level])
            new.addcmul_(g[:, 2 * H:3 * H], c_in[:, :H]).addcmul_(g[:, 3 * H:4 * H], c_in[:, H:])
            torch.tanh(new, out=t[level])
            torch.mul(g[:, H:2 * H], t[level], out=h[level])
        ctx.save_for_backward(x, leaf_weight, branch_weight, below, gates, h_both, c_both, t)
        ctx.levels = levels
        return h

    @staticmethod
    def backward(ctx, from_above):
        x, leaf_weight, branch_weight, below, gates, h_both, c_both, t = ctx.saved_tensors
        leaves, H = len(x), below.shape[1] // 3
        dh, dc, d_gates = from_above.clone(), torch.zeros_like(from_above), torch.empty_like(gates)
        for level, left, right in reversed(ctx.levels):
            inner = slice(level.start - leaves, level.stop - leaves)
            g, d, c_in, d_own, t_own = gates[inner], d_gates[inner], c_both[inner], dh[level], t[level]
            d_new = dc[level].addcmul(d_own * g[:, H:2 * H], 1 - t_own * t_own)
            torch.mul(d_new, g[:, 4 * H:], out=d[:, :H])
            torch.mul(d_own, t_own, out=d[:, H:2 * H])
            torch.mul(d_new, c_in[:, :H], out=d[:, 2 * H:3 * H])
            torch.mul(d_new, c_in[:, H:], out=d[:, 3 * H:4 * H])
            d[:, :4 * H] *= g[:, :4 * H] * (1 - g[:, :4 * H])
            torch.mul(d_new * g[:, :H], 1 - g[:, 4 * H:] ** 2, out=d[:, 4 * H:])
            d_both = d @ branch_weight
            dh[left] += d_both[:, :H]   # a node has one parent, so no row is written twice
            dh[right] += d_both[:, H:]
            dc[left] += d_new * g[:, 2 * H:3 * H]
            dc[right] += d_new * g[:, 3 * H:4 * H]
        d_own, t_own = dh[:leaves], t[:leaves]
        d_new = dc[:leaves].addcmul(d_own * below[:, H:2 * H], 1 - t_own * t_own)
        d_below = torch.cat([d_new * below[:, 2 * H:], d_own * t_own, d_new * below[:, :H]], 1)
        d_below[:, :2 * H] *= below[:, :2 * H] * (1 - below[:, :2 * H])
        d_below[:, 2 * H:] *= 1 - below[:, 2 * H:] ** 2
        return (d_below @ leaf_weight, d_below.t() @ x, d_below.sum(0), d_gates.t() @ h_both, d_gates.sum(0), None, None)

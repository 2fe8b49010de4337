"""Random graphs, random instances, any schedule: the invariant holds and the gradients are the reference's."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampnet.graphs import (
    Bcast,
    Concat,
    Cond,
    Graph,
    Isu,
    Linear,
    Phi,
    Relu,
    Sigmoid,
    Split,
    SquaredError,
    Tanh,
)
from tests.graphs.helpers import assert_equals_reference, sequences

WIDTH = 3


def is_even(s):
    return s.position % 2 == 0


def by_instance(s):
    return s.instance % 3


def has_next(s):
    return s.position + 1 < s.length


def advance(s):
    s.position += 1


def retreat(s):
    s.position -= 1


def again(s):
    return s.step < 2


def count_up(s):
    s.step += 1


def count_down(s):
    s.step -= 1


def reset(s):
    s.step -= 2


def restore(s):
    s.step += 2


class Builder:
    """Grows a graph behind a stream of messages by random pieces."""

    def __init__(self, draw):
        self.draw = draw
        self.g = Graph(state="position length step")
        self.looped = 0

    def width(self):
        return self.draw(st.integers(1, 9))

    def linear(self, x):
        return Linear(x.width, self.width(), self.draw(st.sampled_from([None, "relu", "tanh", "sigmoid"])))(x)

    def activation(self, x):
        return self.draw(st.sampled_from([Relu, Tanh, Sigmoid]))()(x)

    def broadcast(self, x):
        copies = Bcast(self.draw(st.integers(2, 3)))(x)
        return Concat()(*[self.linear(c) if self.draw(st.booleans()) else c for c in copies])

    def split(self, x):
        if x.width < 2:
            return self.linear(x)
        cut = self.draw(st.integers(1, x.width - 1))
        a, b = Split(cut, x.width - cut)(x)
        a, b = self.linear(a), self.activation(b)
        if self.draw(st.booleans()):
            return Linear(a.width + b.width, self.width(), self.draw(st.sampled_from([None, "relu", "tanh"])))(a, b)
        return Concat()(a, b)

    def branch(self, x):
        if self.draw(st.booleans()):
            a, b = Cond(is_even)(x)
            return Phi()(Linear(x.width, 4)(a), Linear(x.width, 4, "tanh")(b))
        a, b, c = Cond(by_instance, outputs=3)(x)
        return Phi()(Linear(x.width, 2)(a), Linear(x.width, 2)(b), Linear(x.width, 2)(c))

    def counted_loop(self, x):
        if self.looped:   # the step counter is used once
            return self.linear(x)
        self.looped = 1
        loop = Phi()(x)
        body = Linear(x.width, x.width, "tanh")(loop)
        more, done = Cond(again)(body)
        loop.close(Isu(count_up, count_down)(more))
        return Isu(reset, restore)(done)

    def recurrence(self, x):
        hidden = self.width()
        loop = Phi()(self.g.zeros(hidden))
        parts = (x, loop) if self.draw(st.booleans()) else (Concat()(x, loop),)
        cell = Linear(x.width + hidden, hidden, "tanh")(*parts)
        more, last = Cond(has_next)(cell)
        loop.close(Isu(advance, retreat)(more))
        return last

    def grow(self, x, pieces):
        for _ in range(pieces):
            piece = self.draw(st.sampled_from(
                [self.linear, self.activation, self.broadcast, self.split, self.branch, self.counted_loop]))
            x = piece(x)
        return x

    def build(self):
        rows = self.draw(st.sampled_from(["one by one", "recurrent", "whole"]))
        if rows == "whole":
            x = self.g.matrix("x", WIDTH, count="length")
        else:
            x = self.g.rows("x", WIDTH, index="position", count="length")
        x = self.grow(x, self.draw(st.integers(0, 3)))
        if rows == "recurrent":
            x = self.recurrence(x)
            x = self.grow(x, self.draw(st.integers(0, 2)))
            SquaredError("target")(Linear(x.width, 2)(x))
        elif self.draw(st.booleans()) and rows == "one by one":
            a, b = Bcast()(x)   # two losses
            SquaredError("row_target", index="position")(Linear(a.width, 2)(a))
            SquaredError("row_target", index="position")(Linear(b.width, 2, "sigmoid")(b))
        else:
            SquaredError("row_target", index="position" if rows == "one by one" else None)(Linear(x.width, 2)(x))
        return self.g


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data(), st.integers(1, 12), st.integers(1, 4), st.integers(1, 8), st.booleans(), st.integers(0, 1000))
def test_any_graph_any_schedule(data, instances, workers, keys, coalesce, seed):
    graph = Builder(data.draw).build().initialise(seed)
    max_batch = data.draw(st.sampled_from([1, 2, 7, 128]))
    # Wider than usual: deep random graphs have gradients whose terms nearly cancel.
    assert_equals_reference(graph, sequences(instances, WIDTH, seed), workers, keys, limit=1e-4, coalesce=coalesce,
                            max_batch=max_batch)

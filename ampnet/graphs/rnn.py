"""Variable-length recurrent network.

    tokens -> Embedding --+
                          Concat -> Linear + ReLU -> Cond --(last)--> Linear -> loss
    h0 ------> Phi -------+                           |
                ^------------ Isu(position + 1) <-----+ (more)
"""

from .graph import Graph
from .nodes import Concat, Cond, Embedding, Isu, Linear, Phi, SoftmaxCrossEntropy


def rnn(vocab=14, classes=10, embedding=128, hidden=128):
    """h[t] = relu([x[t] | h[t-1]] W + b) over an instance's tokens, then a linear classifier on the last h.

    Reads the columns `tokens` (one id a row) and `label`.
    """
    g = Graph(state="position length")
    word = Embedding(vocab, embedding, name="embedding")(g.rows("tokens", index="position", count="length"))
    loop = Phi(name="loop")(g.zeros(hidden, name="h0"))                  # h0 belongs to position 0
    both = Concat(name="concat")(word, loop)                             # joined by the whole state
    cell = Linear(embedding + hidden, hidden, "relu", name="cell")(both)
    more, last = Cond(has_next, name="has_next")(cell)
    loop.close(Isu(advance, retreat, name="next")(more))
    logits = Linear(hidden, classes, name="classifier")(last)
    SoftmaxCrossEntropy("label", name="loss")(logits)
    return g


def has_next(s):
    return s.position + 1 < s.length


def advance(s):
    s.position += 1


def retreat(s):
    s.position -= 1

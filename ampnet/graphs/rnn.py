"""Variable-length recurrent network, plain or LSTM.

    tokens -> Embedding --+
                          Linear + ReLU -> Cond --(last)--> Linear -> loss
    h0 ------> Phi -------+                 |
                ^------ Isu(position + 1) <-+ (more)

With `cell="lstm"` an LSTMCell stands for the Linear, [h | c] goes round, and Narrow takes h of the last one.
"""

from ..errors import GraphError
from .graph import Graph
from .nodes import Cond, Embedding, Isu, Linear, LSTMCell, Narrow, Phi, SoftmaxCrossEntropy

CELLS = ("relu", "lstm")


def rnn(vocab=14, classes=10, embedding=128, hidden=128, cell="relu"):
    """h[t] = relu([x[t] | h[t-1]] W + b) over an instance's tokens, then a linear classifier on the last h.

    cell: "relu", or "lstm". Reads the columns `tokens` (one id a row) and `label`.
    """
    if cell not in CELLS:
        raise GraphError(f"rnn: unknown cell {cell!r}; known: {', '.join(CELLS)}")
    g = Graph(state="position length")
    word = Embedding(vocab, embedding, name="embedding")(g.rows("tokens", index="position", count="length"))
    loop = Phi(name="loop")(g.zeros(2 * hidden if cell == "lstm" else hidden, name="h0"))  # belongs to position 0
    recurrent = LSTMCell(embedding, hidden, name="cell") if cell == "lstm" \
        else Linear(embedding + hidden, hidden, "relu", name="cell")
    value = recurrent(word, loop)                                                              # joined by the whole state
    more, last = Cond(has_next, name="has_next")(value)
    loop.close(Isu(advance, retreat, name="next")(more))
    if cell == "lstm":
        last = Narrow(hidden, name="h")(last)
    logits = Linear(hidden, classes, name="classifier")(last)
    SoftmaxCrossEntropy("label", name="loss")(logits)
    return g


def has_next(s):
    return s.position + 1 < s.length


def advance(s):
    s.position += 1


def retreat(s):
    s.position -= 1

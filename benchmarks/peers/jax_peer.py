"""What the JAX peers share: updates compiled as one function, and contestants made of them.

Parameters are dictionaries, of our names and layouts where a model does not say otherwise. They are copied in, because an
update gives its memory away.
"""

from functools import partial
from itertools import count

import jax
import jax.numpy as jnp

from .contest import Contestant, in_turn

UNDER_WAY = 16   # updates at most that are asked for ahead
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


def contestant(name, parameters, loss, batches, optimizer, lr, as_ours=lambda gradients: gradients):
    """loss(parameters, *arrays) is the mean loss of a batch; as_ours: gradients -> those by our names."""
    state, update = {"sgd": sgd, "adam": adam}[optimizer](loss, lr, parameters)
    value_and_gradients = jax.jit(jax.value_and_grad(loss))

    def gradients():
        value, found = value_and_gradients(parameters, *batches[0].arrays)
        return float(value), as_ours(found)

    return from_update(name, state, update, batches, gradients)


def from_update(name, state, update, batches, gradients):
    """update(state, *arrays) -> state."""
    state, steps = [state], count(1)

    def train(*arrays):
        state[0] = update(state[0], *arrays)
        if next(steps) % UNDER_WAY == 0:
            finish()

    def finish():
        jax.block_until_ready(state[0])

    def warm():
        """Compile, once for every shape."""
        for batch in {tuple(x.shape for x in batch.arrays): batch for batch in batches}.values():
            train(*batch.arrays)

    def finite():
        return all(jnp.isfinite(value).all() for value in jax.tree_util.tree_leaves(state[0]))

    return Contestant(name, in_turn(batches, train), gradients, batches[0].instances, warm, finish, finite)


def on_device(*arrays):
    return tuple(jnp.array(a) for a in arrays)


def copied(parameters):
    return jax.tree_util.tree_map(lambda value: jnp.array(value, copy=True), parameters)


def sgd(loss, lr, parameters):
    @partial(jax.jit, donate_argnums=0)
    def update(parameters, *arrays):
        return descend(parameters, jax.grad(loss)(parameters, *arrays), lr)

    return copied(parameters), update


def descend(parameters, gradients, lr):
    return jax.tree_util.tree_map(lambda value, gradient: value - lr * gradient, parameters, gradients)


def adam(loss, lr, parameters):
    @partial(jax.jit, donate_argnums=0)
    def update(state, *arrays):
        parameters, first, second, number = state
        gradients, number = jax.grad(loss)(parameters, *arrays), number + 1
        first = mix(BETA1, first, gradients)
        second = mix(BETA2, second, jax.tree_util.tree_map(jnp.square, gradients))
        rate = lr * jnp.sqrt(1 - BETA2 ** number) / (1 - BETA1 ** number)
        parameters = jax.tree_util.tree_map(
            lambda value, m, v: value - rate * m / (jnp.sqrt(v) + EPSILON), parameters, first, second)
        return parameters, first, second, number

    zeros = jax.tree_util.tree_map(jnp.zeros_like, parameters)
    return (copied(parameters), zeros, copied(zeros), jnp.float32(0)), update


def mix(share, old, new):
    return jax.tree_util.tree_map(lambda a, b: share * a + (1 - share) * b, old, new)


def cross_entropy(logits, labels):
    """Of each row."""
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)[:, 0]

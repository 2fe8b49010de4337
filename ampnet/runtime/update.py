"""A node updates itself, alone, from the gradients it has gathered.

The update uses the mean over the gathered gradients (backward messages); the few left over at the end of an epoch weigh as
much as those before, so their sum is divided by `min_update_frequency` too: a full step on a handful would be mostly noise.

The norm that is needed for clipping is also the divergence guard: it is summed without fast-math, so a NaN or an infinity
anywhere shows. Gates and softmax keep losses finite however large weights grow, so now and then these are looked at too.
"""

import math

from ..kernels import optimizers
from .atomics import call_operation, load, load_acquire, store
from .controller import RETIRED
from .memory import helper, vector
from .message import DONE, NOT_FINITE, TOO_LARGE, operation
from .order import agree
from .records import ENGINE, NODE, OPTIMIZER, PARAMETER, WORKER

UNLIMITED = 2**62   # the `min_update_frequency` of nodes that never update themselves
LARGEST_WEIGHTS = 1e4     # root mean square over a matrix of weights; what learns stays far below
LOOK_EVERY = 16           # updates


@helper
def mark_touched(parameter, row):
    """Note that a row of a row-sparse parameter has a gradient."""
    p = PARAMETER(parameter)
    if load(p.marks + 8 * row) == 0:
        store(p.marks + 8 * row, 1)
        store(p.touched + 8 * p.touched_count, row)
        p.touched_count += 1


@helper
def _squared_norm(parameter, values, touched):
    """Of a parameter's value or gradient, at the address `values`; of a row-sparse one, of the first `touched` rows listed."""
    p = PARAMETER(parameter)
    dense, total = p.touched == 0, 0.0
    for i in range(1 if dense else touched):
        row = 0 if dense else load(p.touched + 8 * i)
        total += optimizers.squared_norm(vector(values + 4 * row * p.cols, p.rows * p.cols if dense else p.cols))
    return total


@helper
def _step(optimizer, parameter, start, size, scale, rate, number):
    """Step `size` elements from element `start` on."""
    o, p = OPTIMIZER(optimizer), PARAMETER(parameter)
    at = 4 * start
    first = p.first + at if p.first != 0 else p.value
    second = p.second + at if p.second != 0 else p.value
    optimizers.step(o.code, vector(p.value + at, size), vector(p.gradient + at, size), vector(first, size),
                    vector(second, size), scale, rate, o.beta1, o.beta2, o.epsilon, o.decay, number)


@helper
def _step_parameter(optimizer, parameter, scale, rate, number):
    """All elements at once, or row by row where only some have gradients; returns how many rows these were, else 0."""
    p = PARAMETER(parameter)
    dense = p.touched == 0
    for i in range(1 if dense else p.touched_count):
        row = 0 if dense else load(p.touched + 8 * i)
        _step(optimizer, parameter, row * p.cols, p.rows * p.cols if dense else p.cols, scale, rate, number)
        if not dense:
            store(p.marks + 8 * row, 0)
    stepped = p.touched_count
    p.touched_count = 0
    return stepped


@helper
def _is_too_large(parameter, stepped):
    """Whether a matrix of weights is beyond LARGEST_WEIGHTS; of one whose rows are stepped singly, only these are looked at."""
    p = PARAMETER(parameter)
    if p.rows == 1:
        return False
    most = LARGEST_WEIGHTS * LARGEST_WEIGHTS * p.cols * (p.rows if p.touched == 0 else stepped)
    return not _squared_norm(parameter, p.value, stepped) <= most


@operation
def update(worker, node, batch, count):
    """Apply what a node has gathered, through its hooks; a node that has gathered nothing is left alone."""
    n = NODE(node)
    engine = WORKER(worker).engine
    e = ENGINE(engine)
    if n.settle != 0:
        status = call_operation(n.settle, worker, node, 0, 0)
        if status != DONE:
            return status
    if n.gathered == 0:
        return DONE
    total = 0.0
    for i in range(n.parameter_count):
        parameter = load(n.parameters + 8 * i)
        p = PARAMETER(parameter)
        squared = _squared_norm(parameter, p.gradient, p.touched_count)
        if not math.isfinite(squared):
            n.failed_parameter = i
            return NOT_FINITE
        total += squared
    o = OPTIMIZER(e.optimizer)
    done = e.instances_before + agree(worker, load_acquire(engine + RETIRED))
    rate = optimizers.learning_rate(o.schedule, o.rate, done, o.total, o.warmup, o.step_every, o.step_factor)
    expected = n.min_update_frequency if n.min_update_frequency < UNLIMITED else 0
    scale = 1.0 / max(n.gathered, expected)
    scale *= optimizers.clip_factor(total, scale, o.clip)
    for i in range(n.parameter_count):
        parameter = load(n.parameters + 8 * i)
        stepped = _step_parameter(e.optimizer, parameter, scale, rate, n.version + 1)
        if n.version % LOOK_EVERY == 0 and _is_too_large(parameter, stepped):
            n.failed_parameter = i
            return TOO_LARGE
    n.gathered = 0
    n.version += 1
    if n.refresh != 0:
        return call_operation(n.refresh, worker, node, 0, 0)
    return DONE

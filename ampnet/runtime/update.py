"""A node updates itself, alone, from the gradients it has gathered.

The update uses the mean over the gathered gradients (backward messages); the few left over at the end of an epoch weigh as
much as those before, so their sum is divided by `min_update_frequency` too: a full step on a handful would be mostly noise.

The norm that is needed for clipping is also the divergence guard: it is summed without fast-math, so a NaN or an infinity
anywhere shows. Gates and softmax keep losses finite however large weights grow, so now and then these are looked at too. A node
that renews its weights itself guards them itself, block by block.
"""

import math

from ..kernels import optimizers
from .atomics import call_operation, load, load_acquire, store
from .controller import RETIRED
from .late import give_answers
from .memory import helper, vector
from .message import DONE, NOT_FINITE, TOO_LARGE, operation
from .order import agree
from .records import ENGINE, NODE, OPTIMIZER, PARAMETER, WORKER

UNLIMITED = 2**62   # the `min_update_frequency` of nodes that never update themselves
LARGEST_WEIGHTS = 1e4     # root mean square over a matrix of weights; what learns stays far below
LOOK_EVERY = 16           # updates
NOT_MINE = -1   # what a node's `renew` says of a parameter that it does not update itself


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
def step_elements(worker, parameter, start, gradient, size):
    """Step `size` elements from element `start` on, with the gradient at an address, which is 0 afterwards."""
    w, p = WORKER(worker), PARAMETER(parameter)
    o, at = OPTIMIZER(ENGINE(w.engine).optimizer), 4 * start
    first = p.first + at if p.first != 0 else p.value
    second = p.second + at if p.second != 0 else p.value
    optimizers.step(o.code, vector(p.value + at, size), vector(gradient, size), vector(first, size), vector(second, size),
                    w.step_scale, w.step_rate, o.beta1, o.beta2, o.epsilon, o.decay, w.step_number)


@helper
def _step_parameter(worker, parameter):
    """All elements at once, or row by row where only some have gradients; returns how many rows these were, else 0."""
    p = PARAMETER(parameter)
    dense = p.touched == 0
    for i in range(1 if dense else p.touched_count):
        row = 0 if dense else load(p.touched + 8 * i)
        start = row * p.cols
        step_elements(worker, parameter, start, p.gradient + 4 * start, p.rows * p.cols if dense else p.cols)
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


@helper
def _gradient_norm(node, number):
    """Squared, of a parameter; one that is not finite is noted as failed."""
    n = NODE(node)
    parameter = load(n.parameters + 8 * number)
    p = PARAMETER(parameter)
    squared = _squared_norm(parameter, p.gradient, p.touched_count)
    if not math.isfinite(squared):
        n.failed_parameter = number
    return squared


@helper
def _settle(worker, node):
    n = NODE(node)
    return DONE if n.settle == 0 else call_operation(n.settle, worker, node, 0, 0)


@helper
def _prepare_step(worker, node, squared, optimizer):
    """Scale, rate and number of this update; `squared`: norm of what is gathered, where it is clipped."""
    w, n, o = WORKER(worker), NODE(node), OPTIMIZER(optimizer)
    e = ENGINE(w.engine)
    done = e.instances_before + agree(worker, load_acquire(w.engine + RETIRED))
    w.step_rate = optimizers.learning_rate(o.schedule, o.rate, done, o.total, o.warmup, o.step_every, o.step_factor)
    expected = n.min_update_frequency if n.min_update_frequency < UNLIMITED else 0
    scale = 1.0 / max(n.gathered, expected)
    w.step_scale = scale * optimizers.clip_factor(squared, scale, o.clip)
    w.step_number = n.version + 1


@operation
def update(worker, node, batch, count):
    """Apply what a node has gathered, through its hooks; a node that has gathered nothing is left alone.

    A node that renews its weights itself need not bring their gradients to memory before, unless their norm is wanted.
    """
    n, engine = NODE(node), WORKER(worker).engine
    status = give_answers(worker, node)   # with the weights as they are
    if status != DONE:
        return status
    optimizer = ENGINE(engine).optimizer
    is_clipped = OPTIMIZER(optimizer).clip > 0
    if n.gathered == 0 or is_clipped or n.renew == 0:
        status = _settle(worker, node)
        if status != DONE or n.gathered == 0:
            return status
    total, is_known = 0.0, is_clipped or n.renew == 0
    if is_known:
        for i in range(n.parameter_count):
            squared = _gradient_norm(node, i)
            if not math.isfinite(squared):
                return NOT_FINITE
            total += squared
    _prepare_step(worker, node, total, optimizer)
    for i in range(n.parameter_count):
        parameter = load(n.parameters + 8 * i)
        stepped, status = 0, NOT_MINE
        if n.renew != 0:
            status = call_operation(n.renew, worker, node, parameter, n.held_rows)
        if status == NOT_MINE:
            if not is_known and not math.isfinite(_gradient_norm(node, i)):
                return NOT_FINITE
            stepped = _step_parameter(worker, parameter)
        elif status != DONE:
            n.failed_parameter = i
            return status
        if n.version % LOOK_EVERY == 0 and _is_too_large(parameter, stepped):
            n.failed_parameter = i
            return TOO_LARGE
    n.gathered = 0
    n.version += 1
    if n.renew != 0:
        n.held_rows = 0
    elif n.refresh != 0:
        return call_operation(n.refresh, worker, node, 0, 0)
    return DONE

"""The worker loop: one message's life, compiled. A worker stays in here for a whole run.

    1. empty the queue of other workers, and the outbox         -> deliver: forward to another worker, call, or let wait
    2. start instances in free slots                            (controller)
    3. choose a waiting list                                    (policy)
    4. take up to max_batch rows from it, call the operation    -> outbox
    5. after a backward operation: update the node if it has gathered enough
    6. nothing to do: spin, then yield, then sleep; leave when every instance is home or `stop` is set
"""

import numpy as np

from .atomics import (
    atomic_exchange,
    call_operation,
    load,
    load_acquire,
    nanoseconds,
    sleep_microseconds,
    store,
    store_release,
    yield_core,
)
from .controller import all_retired, start_instance
from .late import give_answers, next_late
from .memory import LINE, helper, integers
from .message import (
    BACKWARD,
    DONE,
    FORWARD,
    MESSAGE,
    NOT_AS_RECORDED,
    STATE_FIELDS,
    copy_state,
    is_training,
    operation,
    pass_back,
)
from .order import END, PAUSE, SERVE, START, is_repeating, peek, read, write
from .policy import choose, ready_rows, urgency
from .queue import QUEUE_BYTES, pop, push, seems_empty
from .records import ENGINE, ENGINE_DTYPE, LOG, NODE, TRACE, WAITING, WORKER, offset

STOP, FAILED = offset(ENGINE_DTYPE, "stop"), offset(ENGINE_DTYPE, "failed")
# An idle worker spins, then yields the core, then sleeps. It stays awake for longer than the longest sleep: otherwise two
# workers that wait for each other's messages would each find the other asleep, at every hop.
SPINS = 1000                # turns
LOOKS = 64                  # for a message, a turn
AWAKE_NANOSECONDS = 2_000_000
SLEEP_MAX = 1000            # microseconds
UPDATE_OPERATION = 2             # "direction" of a failure inside an update
EVENT_WORDS = 6                  # start, end, waiting list, messages, rows, instance of the first message


@helper
def fail(worker, node, direction, status):
    """Record the first failure of all workers, and stop them."""
    w = WORKER(worker)
    e = ENGINE(w.engine)
    if atomic_exchange(w.engine + FAILED, 1) == 0:
        e.failed_node = NODE(node).number
        e.failed_direction = direction
        e.failed_status = status
        e.failed_version = NODE(node).version
        state = MESSAGE(w.culprit if w.culprit != 0 else w.recent).state
        for i in range(STATE_FIELDS):
            e.failed_state[i] = state[i]
    store_release(w.engine + STOP, 1)


@helper
def wait_here(worker, node, message):
    """Append a message to the waiting list of its node and direction."""
    w, m = WORKER(worker), MESSAGE(message)
    number = np.int64(m.node)
    if m.direction == FORWARD:
        number += ENGINE(w.engine).node_count
    waiting = WAITING(w.lists + LINE * number)
    m.next = 0
    if waiting.messages == 0:
        waiting.first = message
    else:
        MESSAGE(waiting.last).next = message
    waiting.last = message
    waiting.messages += 1
    waiting.rows += max(1, m.rows)
    show_ready(worker, number)


@helper
def show_ready(worker, number):
    """Renew what the policy sees of a waiting list. A receipt counts as one row."""
    w = WORKER(worker)
    e = ENGINE(w.engine)
    waiting = WAITING(w.lists + LINE * number)
    ready = 0
    if waiting.messages > 0:
        first_rows = max(1, MESSAGE(waiting.first).rows)
        ready = ready_rows(waiting.rows, first_rows, e.max_batch if e.max_messages > 1 else first_rows)
    store(w.lists + LINE * 2 * e.node_count + 8 * number, urgency(ready, waiting.in_loop))


@helper
def deliver(worker, message):
    """Bring a message to its node: on another worker, at once, or into the waiting list."""
    w, m = WORKER(worker), MESSAGE(message)
    e = ENGINE(w.engine)
    node = load(e.nodes + 8 * np.int64(m.node))
    n = NODE(node)
    if n.worker != w.number and n.worker >= 0:
        producer = w.number if w.log != 0 else 0
        push(WORKER(load(e.workers + 8 * n.worker)).queues + QUEUE_BYTES * producer, message)
        return
    forward = m.direction == FORWARD
    port = (n.first_input if forward else n.first_output) + m.port
    store(w.received + 8 * port, load(w.received + 8 * port) + 1)
    if n.immediate != 0:
        store(w.batch, message)
        w.culprit = message
        status = call_operation(n.forward if forward else n.backward, worker, node, w.batch, 1)
        if status != DONE:
            fail(worker, node, FORWARD if forward else BACKWARD, status)
    elif not forward and n.transparent != 0 and not is_training(worker):
        pass_back(worker, node, 0, message)
    else:
        wait_here(worker, node, message)


@helper
def empty_queues(worker):
    """Deliver what other workers have sent; returns how many messages."""
    w = WORKER(worker)
    delivered = 0
    for producer in range(ENGINE(w.engine).worker_count if w.log != 0 else 1):
        while True:
            message = pop(w.queues + QUEUE_BYTES * producer)
            if message == 0:
                break
            write(worker, producer)
            deliver(worker, message)
            delivered += 1
    return delivered


@helper
def empty_outbox(worker):
    """Deliver what operations here have sent; returns how many messages."""
    w = WORKER(worker)
    delivered = 0
    while w.outbox_first != 0:
        message = w.outbox_first
        w.outbox_first = MESSAGE(message).next
        deliver(worker, message)
        delivered += 1
    return delivered


@helper
def take_batch(worker, number):
    """Move messages from a waiting list to the batch table: at least one, at most max_batch rows. Returns how many."""
    w = WORKER(worker)
    e = ENGINE(w.engine)
    waiting = WAITING(w.lists + LINE * number)
    count, rows, listed = 0, 0, 0
    while waiting.messages > 0 and count < e.max_messages:
        message = waiting.first
        m = MESSAGE(message)
        if count > 0 and rows + m.rows > e.max_batch:
            break
        waiting.first = m.next
        m.next = 0   # from here on `next` is the operation's, to hang blocks on one another
        waiting.messages -= 1
        store(w.batch + 8 * count, message)
        rows += m.rows
        listed += max(1, m.rows)
        count += 1
    waiting.rows -= listed
    show_ready(worker, number)
    store(w.calls + 8 * number, load(w.calls + 8 * number) + 1)
    store(w.rows + 8 * number, load(w.rows + 8 * number) + rows)
    return count, rows


@helper
def note(worker, number, start, count, rows, instance):
    """Write an operation into the trace, a ring that overwrites its oldest events.

    number: of the waiting list; 2 * node_count + node for an update, which has as many messages as gradients were gathered.
    Answers given late are one of the node's backward list that has rows, but no messages: these were of the call before.
    """
    w = WORKER(worker)
    t = TRACE(w.trace)
    event = t.events + 8 * EVENT_WORDS * (t.count % t.capacity)
    store(event, start)
    store(event + 8, nanoseconds())
    store(event + 16, number)
    store(event + 24, count)
    store(event + 32, rows)
    store(event + 40, instance)
    t.count += 1


@helper
def next_list(worker, ready):
    """The list to serve; 2 * node_count for answers that were put off; -1 when there is nothing to do."""
    w = WORKER(worker)
    node_count = ENGINE(w.engine).node_count
    number = choose(ready, node_count)
    if w.late != 0 and not (0 <= number < node_count and WAITING(w.lists + LINE * number).in_loop != 0):
        return 2 * node_count
    return number


@helper
def serve_late(worker):
    """Give the answers that one node has put off."""
    w = WORKER(worker)
    node = next_late(worker)
    n, start, instance, rows = NODE(node), 0, 0, 0
    if n.late_first == 0:
        return
    copy_state(w.recent, n.late_first)
    w.culprit = 0
    if w.trace != 0:
        start, instance, rows = nanoseconds(), np.int64(MESSAGE(n.late_first).state[0]), n.late_rows
    status = give_answers(worker, node)
    if status != DONE:
        fail(worker, node, BACKWARD, status)
    elif w.trace != 0:
        note(worker, n.number, start, 0, rows, instance)


@helper
def serve(worker, number, updater):
    """Run one operation on what waits in a list, and the node's update when that is due."""
    w = WORKER(worker)
    e = ENGINE(w.engine)
    if number == 2 * e.node_count:
        serve_late(worker)
        return
    backward = number < e.node_count
    node = load(e.nodes + 8 * (number if backward else number - e.node_count))
    n = NODE(node)
    count, rows = take_batch(worker, number)
    copy_state(w.recent, load(w.batch + 8 * (count - 1)))
    start, instance = 0, 0
    if w.trace != 0:
        start, instance = nanoseconds(), np.int64(MESSAGE(load(w.batch)).state[0])
    w.culprit = 0
    status = call_operation(n.backward if backward else n.forward, worker, node, w.batch, count)
    if status != DONE:
        fail(worker, node, BACKWARD if backward else FORWARD, status)
        return
    if w.trace != 0:
        note(worker, number, start, count, rows, instance)
    if backward and n.parameter_count > 0 and is_training(worker):   # the receipts of an evaluation are no gradients
        n.gathered += count
        n.gradients += count
        if n.gathered >= n.min_update_frequency:
            start, gathered = nanoseconds() if w.trace != 0 else 0, n.gathered
            status = call_operation(updater, worker, node, 0, 0)
            if status != DONE:
                fail(worker, node, UPDATE_OPERATION, status)
            elif w.trace != 0:
                note(worker, 2 * e.node_count + number, start, gathered, 0, instance)


@helper
def start(worker):
    """Start the next instance in a free slot."""
    w = WORKER(worker)
    e = ENGINE(w.engine)
    node = load(e.nodes + 8 * load(e.sources))
    w.culprit = 0
    copy_state(w.recent, w.blank)
    status = start_instance(worker, w.blank)
    if status != DONE:
        fail(worker, node, FORWARD, status)


@helper
def look_out(worker):
    """Watch the queues for a moment: a message is seen sooner than between two turns of all else."""
    w = WORKER(worker)
    queues = ENGINE(w.engine).worker_count if w.log != 0 else 1
    for _ in range(LOOKS):
        for producer in range(queues):
            if not seems_empty(w.queues + QUEUE_BYTES * producer):
                return


@helper
def rest(worker, turns, idle_since):
    """Wait a little: longer the longer there was nothing to do."""
    if turns < SPINS:
        look_out(worker)
        return
    idle = nanoseconds() - idle_since
    if idle < AWAKE_NANOSECONDS:
        yield_core()
        return
    WORKER(worker).asleep = 1
    sleep_microseconds(min(idle // 10_000, SLEEP_MAX))


@helper
def work(worker, ready, updater):
    """Do what there is to do, in the order in which it comes."""
    w = WORKER(worker)
    turns, idle_since = 0, 0
    while load_acquire(w.engine + STOP) == 0:
        delivered = empty_queues(worker) + empty_outbox(worker)
        if w.slot_count > 0:
            start(worker)
            continue
        number = next_list(worker, ready)
        if number >= 0:
            if turns > 0:
                w.idle_nanoseconds += nanoseconds() - idle_since
                w.asleep = 0
                turns = 0
            write(worker, SERVE)
            serve(worker, number, updater)
            continue
        if delivered > 0:
            write(worker, PAUSE)
        if all_retired(w.engine):
            break
        if turns == 0:
            idle_since = nanoseconds()
        turns += 1
        rest(worker, turns, idle_since)
    if turns > 0:
        w.idle_nanoseconds += nanoseconds() - idle_since


@helper
def wait_for(worker, producer):
    """The next message from a producer; 0 when all are told to stop. For producer -1 wait until every instance is home."""
    w = WORKER(worker)
    turns, idle_since, message = 0, nanoseconds(), 0
    while load_acquire(w.engine + STOP) == 0:
        if producer >= 0:
            message = pop(w.queues + QUEUE_BYTES * producer)
        if message != 0 or (producer < 0 and all_retired(w.engine)):
            break
        turns += 1
        rest(worker, turns, idle_since)
    if turns > 0:
        w.idle_nanoseconds += nanoseconds() - idle_since
        w.asleep = 0
    return message


@helper
def repeat(worker, ready, updater):
    """Do what the log says, in its order."""
    w = WORKER(worker)
    e = ENGINE(w.engine)
    while load_acquire(w.engine + STOP) == 0:
        if peek(worker) < e.worker_count:
            message = wait_for(worker, read(worker))
            if message != 0:
                deliver(worker, message)
            continue
        empty_outbox(worker)   # which may read, too
        token = read(worker)
        number = next_list(worker, ready) if token == SERVE else -1
        if number >= 0:
            serve(worker, number, updater)
        elif token == START and w.slot_count > 0:
            start(worker)
        elif token == END:
            wait_for(worker, -1)
            break
        elif token != PAUSE:
            LOG(w.log).is_unfit = 1
        if LOG(w.log).is_unfit != 0:
            fail(worker, load(e.nodes), FORWARD, NOT_AS_RECORDED)


@operation
def run_worker(worker, updater, _, __):
    """Work until every instance is home or all are told to stop; `updater` is the address of the update operation."""
    w = WORKER(worker)
    node_count = ENGINE(w.engine).node_count
    ready = integers(w.lists + LINE * 2 * node_count, 2 * node_count)
    if is_repeating(worker):
        repeat(worker, ready, updater)
        w.asleep = 1   # others may have more to do, or wait for what never comes
    else:
        work(worker, ready, updater)
        w.asleep = 0
    return 0

"""The queue and the table under many operations: nothing lost, nothing twice, nothing out of order."""

import threading

import numpy as np
import pytest
from numba import njit

from ampnet.runtime import queue, table
from ampnet.runtime.atomics import load, load_acquire, store, store_release
from ampnet.runtime.memory import allocate
from ampnet.runtime.message import MESSAGE_DTYPE, STATE
from ampnet.runtime.records import NODE_DTYPE
from ampnet.runtime.worker import yield_core

PRODUCERS, BLOCKS = 4, 4096


@njit(nogil=True)
def produce(q, blocks, producer, count):
    """Send `count` messages tagged (producer, number), in blocks that the consumer gives back by a mark in their third word."""
    for i in range(count):
        block = blocks + 64 * (i % BLOCKS)
        while load_acquire(block + 24) != 0:
            yield_core()
        store(block + 8, producer)
        store(block + 16, i)
        store_release(block + 24, 1)
        queue.push(q, block)


@njit(nogil=True)
def consume(q, total, expected, turns):
    """Take messages until there were `total`, or none came in `turns` turns. Counts those that are not the next of their
    producer: one that is lost, doubled or overtaken makes at least one."""
    got = wrong = idle = 0
    while got < total and idle < turns:
        block = queue.pop(q)
        if block == 0:
            idle += 1
            yield_core()
            continue
        idle = 0
        producer, i = load(block + 8), load(block + 16)
        wrong += expected[producer] != i
        expected[producer] = i + 1
        got += 1
        # The queue still looks at the last block it gave out until the next one comes: hand it back one later.
        store_release(block + 24, 0)
    return got, wrong


@njit
def reset(q):
    queue.reset(q)


@pytest.mark.parametrize("count", [50_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_tagged_messages_of_four_producers_come_once_and_in_order(count):
    q, blocks = allocate(queue.QUEUE_DTYPE), [allocate(np.uint8, 64 * BLOCKS) for _ in range(PRODUCERS)]
    address, expected = q.ctypes.data, np.zeros(PRODUCERS, np.int64)
    reset(address)
    produce(address, 0, 0, 0)   # compiled before the threads start
    consume(address, 0, expected, 1)
    threads = [threading.Thread(target=produce, args=(address, memory.ctypes.data, p, count), daemon=True)
               for p, memory in enumerate(blocks)]
    for thread in threads:
        thread.start()
    got, wrong = consume(address, PRODUCERS * count, expected, 100_000_000)
    for thread in threads:
        thread.join(60)
    assert (got, wrong) == (PRODUCERS * count, 0)
    assert list(expected) == [count] * PRODUCERS
    assert consume(address, 1, expected, 1000) == (0, 0)   # and nothing is left


@njit
def homes(states, mask, message, out):
    """Where a table of this size looks for each state first."""
    for i in range(len(states)):
        for k in range(8):
            store_state(message, k, states[i, k])
        out[i] = (table.hash_state(message + STATE) >> 1) & mask


@njit
def store_state(message, k, value):
    word = message + STATE + 8 * (k // 2)
    shift = 32 * (k % 2)
    store(word, (load(word) & ~(0xFFFFFFFF << shift)) | ((value & 0xFFFFFFFF) << shift))


PUT, GET, TAKE, TAKE_OR_PUT = range(4)


@njit
def operate(node, message, states, what, which, values, answers, sizes):
    for i in range(len(what)):
        for k in range(8):
            store_state(message, k, states[which[i], k])
        if what[i] == PUT:
            answers[i] = table.put(node, message, values[i])
        elif what[i] == GET:
            answers[i] = table.get(node, message)
        elif what[i] == TAKE:
            answers[i] = table.take(node, message)
        else:
            answers[i], entry = table.get_or_put(node, message, values[i])
            if answers[i] != 0:
                table.remove(node, entry)
        sizes[i] = sizes_of(node)


@njit
def sizes_of(node):
    return load(node + USED)


USED = NODE_DTYPE.fields["used"][1]


@njit
def forget(node):
    table.clear(node)


def colliding_states(count, message, mask=1023):
    """States that all want one of three neighbouring places, the last, the first and the second of a table of 1024."""
    rng = np.random.default_rng(0)
    found = np.zeros((0, 8), np.int64)
    while len(found) < count:
        states = rng.integers(-5, 200, (200_000, 8))
        out = np.zeros(len(states), np.int64)
        homes(states, mask, message, out)
        found = np.concatenate([found, states[np.isin(out, (mask, 0, 1))]])
    return np.unique(found, axis=0)[:count]


def dict_answers(what, which, values):
    """What a dictionary answers to the same operations, and its size after each."""
    mine, answers, sizes = {}, [], []
    for operation, key, value in zip(what.tolist(), which.tolist(), values.tolist(), strict=True):
        if operation == PUT:
            answers.append(key not in mine)
            mine.setdefault(key, value)
        elif operation == GET:
            answers.append(mine.get(key, 0))
        elif operation == TAKE or key in mine:
            answers.append(mine.pop(key, 0))
        else:
            answers.append(0)
            mine[key] = value
        sizes.append(len(mine))
    return answers, sizes


@pytest.mark.parametrize("operations", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("collide", [True, False])
def test_the_table_answers_as_a_dictionary_does(operations, collide):
    node, message = allocate(NODE_DTYPE), allocate(MESSAGE_DTYPE)
    rng = np.random.default_rng(operations)
    if collide:
        states = colliding_states(500, message.ctypes.data)
    else:
        states = np.unique(rng.integers(0, 12, (3000, 8)), axis=0)
    what, which = rng.integers(0, 4, operations), rng.integers(0, len(states), operations)
    what[: operations // 4][rng.random(operations // 4) < 0.5] = PUT   # it fills up first
    values = rng.integers(1, 2**60, operations)
    answers, sizes = np.zeros(operations, np.int64), np.zeros(operations, np.int64)
    operate(node.ctypes.data, message.ctypes.data, states, what, which, values, answers, sizes)
    expected, expected_sizes = dict_answers(what, which, values)
    np.testing.assert_array_equal(answers, expected)
    np.testing.assert_array_equal(sizes, expected_sizes)
    assert max(expected_sizes) > len(states) // 4
    forget(node.ctypes.data)

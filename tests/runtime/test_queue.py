"""The queue and the table alone, driven from small compiled loops."""

import threading

import numpy as np
import pytest
from numba import njit

from ampnet.runtime import queue
from ampnet.runtime.atomics import atomic_add, load, store
from ampnet.runtime.memory import allocate, c_aligned_alloc, c_free


@njit
def reset(q):
    queue.reset(q)


@njit(nogil=True)
def produce(q, producer, count):
    for i in range(count):
        block = c_aligned_alloc(64, 64)
        store(block + 8, producer)
        store(block + 16, i)
        queue.push(q, block)


@njit(nogil=True)
def consume(q, total, next_of):
    """Take `total` messages; returns how many came out of order."""
    got = wrong = 0
    while got < total:
        block = queue.pop(q)
        if block == 0:
            continue
        producer, i = load(block + 8), load(block + 16)
        wrong += next_of[producer] != i
        next_of[producer] = i + 1
        c_free(block)
        got += 1
    return wrong


@njit(nogil=True)
def add_many(address, count):
    for _ in range(count):
        atomic_add(address, 1)


def test_every_message_comes_once_and_in_the_order_of_its_producer():
    q = allocate(queue.QUEUE_DTYPE)
    reset(q.ctypes.data)
    producers, count = 3, 50_000
    produce(q.ctypes.data, 0, 0)   # compiled before the threads start
    consume(q.ctypes.data, 0, np.zeros(1, np.int64))
    threads = [threading.Thread(target=produce, args=(q.ctypes.data, p, count)) for p in range(producers)]
    for thread in threads:
        thread.start()
    next_of = np.zeros(producers, np.int64)
    wrong = consume(q.ctypes.data, producers * count, next_of)
    for thread in threads:
        thread.join()
    assert wrong == 0
    assert list(next_of) == [count] * producers
    assert queue_is_empty(q.ctypes.data)


@njit
def pop_once(q):
    return queue.pop(q)


def queue_is_empty(address):
    return pop_once(address) == 0


def test_an_empty_queue_gives_nothing_and_stays_usable():
    q = allocate(queue.QUEUE_DTYPE)
    reset(q.ctypes.data)
    for _ in range(3):
        assert queue_is_empty(q.ctypes.data)
        produce(q.ctypes.data, 0, 2)
        assert consume(q.ctypes.data, 2, np.zeros(1, np.int64)) == 0


@pytest.mark.parametrize("threads", [1, 4])
def test_atomic_add_loses_nothing(threads):
    word = np.zeros(1, np.int64)
    add_many(word.ctypes.data, 0)
    workers = [threading.Thread(target=add_many, args=(word.ctypes.data, 100_000)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert word[0] == threads * 100_000

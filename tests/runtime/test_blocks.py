"""Blocks: taken and given by several workers, none is lost, and what is in use is known."""

import threading

import numpy as np
from numba import njit

from ampnet.runtime.blocks import (
    FOREIGN_BYTES,
    HEAP_DTYPE,
    KEPT_BLOCKS,
    KEPT_BYTES,
    free_blocks,
    give_block,
    take_block,
)
from ampnet.runtime.memory import LINE, allocate

LARGE = 16   # a size of which a free list keeps KEPT_BLOCKS


@njit(nogil=True)
def take(heap, size, out):
    for i in range(len(out)):
        out[i] = take_block(heap, size)


@njit(nogil=True)
def give(heap, blocks, size):
    for block in blocks:
        give_block(heap, block, size)


@njit
def free_all(heap):
    return free_blocks(heap)


def addresses(heaps):
    return [heaps[i:i + 1].ctypes.data for i in range(len(heaps))]


def test_blocks_given_to_any_heap_are_counted():
    heaps = allocate(HEAP_DTYPE, 2)
    a, b = addresses(heaps)
    rng, in_use = np.random.default_rng(0), {0: [], LARGE: []}
    for _ in range(400):
        size, heap = int(rng.choice([0, LARGE])), int(rng.choice([a, b]))
        blocks = in_use[size]
        if rng.random() < 0.55 and len(blocks) < 60:
            taken = np.zeros(int(rng.integers(1, 9)), np.int64)
            take(heap, size, taken)
            assert not (taken % LINE).any() and not set(taken) & set(blocks)
            blocks += list(taken)
        elif blocks:
            rng.shuffle(blocks)
            some = int(rng.integers(1, len(blocks) + 1))
            give(heap, np.array(blocks[:some]), size)
            del blocks[:some]
            assert heaps["free"][0, 2 * LARGE + 1] <= KEPT_BLOCKS
    assert len(in_use[0]) + len(in_use[LARGE]) > 0
    assert free_all(a) + free_all(b) == len(in_use[0]) + len(in_use[LARGE])
    assert free_all(a) + free_all(b) == 0


def test_a_heap_keeps_more_of_its_own_blocks_than_of_others():
    heaps, blocks = allocate(HEAP_DTYPE, 2), np.zeros(KEPT_BYTES // LINE + 100, np.int64)
    a, b = addresses(heaps)
    for receiver, kept in ((a, KEPT_BYTES), (b, FOREIGN_BYTES)):
        take(a, 0, blocks)
        give(receiver, blocks, 0)
        assert heaps["free"][(a, b).index(receiver), 1] == kept // LINE
        assert free_all(a) + free_all(b) == 0


def test_workers_give_back_to_the_system_at_once_what_one_of_them_got():
    """Beyond what free lists keep, blocks leave the list of the heap they are from, which its owner goes on using."""
    heaps, rounds, count = allocate(HEAP_DTYPE, 4), 40, 30
    owner, *others = addresses(heaps)
    start = threading.Barrier(4)

    def work(heap):
        for _ in range(rounds):
            start.wait(60)
            if heap == owner:
                take(owner, LARGE, np.zeros(1, np.int64))   # and never gives them
            else:
                give(heap, shares[heap], LARGE)
            start.wait(60)
            if heap == owner:
                for share in shares.values():
                    take(owner, LARGE, share)

    shares = {heap: np.zeros(count, np.int64) for heap in others}
    for share in shares.values():
        take(owner, LARGE, share)
    give(others[0], np.zeros(0, np.int64), LARGE)   # compiled before the threads start
    threads = [threading.Thread(target=work, args=(heap,), daemon=True) for heap in (owner, *others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert sum(free_all(heap) for heap in (owner, *others)) == rounds + 3 * count

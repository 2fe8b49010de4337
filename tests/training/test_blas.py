"""BLAS pools: one thread each while workers run, and the user's own setting afterwards, whatever happens."""

import threading

import numpy as np
import pytest
import scipy.linalg.cython_blas  # noqa: F401  (both copies of OpenBLAS are there before anything is measured)
from threadpoolctl import threadpool_info, threadpool_limits

from ampnet import DivergenceError, Trainer, evaluate
from ampnet.graphs import rnn
from ampnet.training.blas import single_threaded_blas
from ampnet.training.trainer import Observer


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def two_threads():
    """The user's setting."""
    with threadpool_limits(2, user_api="blas"):
        if set(blas_threads()) != {2}:
            pytest.skip("there is no BLAS whose threads can be set")
        yield


class Watch(Observer):
    """Notes the threads of every pool, whenever it is called; then does what it is told."""

    def __init__(self, act=lambda: None):
        self.seen, self.act = set(), act

    def look(self, *_):
        self.seen.update(blas_threads())
        self.act()

    epoch_started = progress = look


def trainer(seed=0, **options):
    return Trainer(rnn(embedding=8, hidden=8), **{"seed": seed, "max_active_keys": 4, "min_update_frequency": 10, **options})


def test_one_thread_inside_a_run_and_the_users_setting_after(lists):
    watch = Watch()
    trainer(workers=2).fit(lists, epochs=2, observers=[watch])
    assert watch.seen == {1} and set(blas_threads()) == {2}


def test_the_setting_comes_back_after_an_evaluation(lists):
    evaluate(rnn(embedding=8, hidden=8), lists.valid)
    assert set(blas_threads()) == {2}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_the_setting_comes_back_after_an_exception(lists, error):
    def fail():
        raise error

    watch = Watch(fail)
    with pytest.raises(error):
        trainer().fit(lists, epochs=1, observers=[watch])
    assert watch.seen == {1} and set(blas_threads()) == {2}


def test_the_setting_comes_back_after_a_divergence(lists):
    with pytest.raises(DivergenceError):
        trainer(optimizer="sgd", lr=1e30, min_update_frequency=1).fit(lists, epochs=1)
    assert set(blas_threads()) == {2}


@pytest.mark.parametrize("first_leaves_first", [True, False])
def test_the_setting_comes_back_when_two_runs_overlap(first_leaves_first):
    """The limit is the process's: it stays until the last run is over, and then the setting is that from before the first."""
    first, second = single_threaded_blas(), single_threaded_blas()
    first.__enter__()
    second.__enter__()
    order = (first, second) if first_leaves_first else (second, first)
    order[0].__exit__(None, None, None)
    assert set(blas_threads()) == {1}
    order[1].__exit__(None, None, None)
    assert set(blas_threads()) == {2}


def parameters_of(seed, lists):
    mine = trainer(seed)
    mine.fit(lists, epochs=3)
    return mine.model.parameters


def test_two_trainers_in_two_threads_are_as_good_as_one_after_the_other(lists):
    alone = [parameters_of(seed, lists) for seed in (1, 2)]
    together = {}

    def run(seed):
        together[seed] = parameters_of(seed, lists)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    for seed, expected in zip((1, 2), alone, strict=True):
        for name, value in expected.items():
            np.testing.assert_array_equal(together[seed][name], value, err_msg=name)
    assert set(blas_threads()) == {2}

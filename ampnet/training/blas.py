"""BLAS pools held at one thread while workers run, or they would fight the workers for the cores."""

import threading
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

_lock, _runs, _limits = threading.Lock(), 0, None   # the limit is the process's, so all runs share one


@contextmanager
def single_threaded_blas():
    """Limit every BLAS pool to 1 and give the user's settings back after the last run.

    SciPy carries an OpenBLAS of its own, which compiled `np.dot` uses: it is loaded first, or the limit would miss it.
    """
    import scipy.linalg.cython_blas  # noqa: F401
    global _runs, _limits
    with _lock:
        if _runs == 0:
            _limits = threadpool_limits(limits=1, user_api="blas")
        _runs += 1
    try:
        yield
    finally:
        with _lock:
            _runs -= 1
            if _runs == 0:
                _limits.restore_original_limits()

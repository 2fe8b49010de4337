"""BLAS pools held at one thread while workers run, or they would fight the workers for the cores."""

from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def single_threaded_blas():
    """Limit every BLAS pool to 1 and give the user's settings back afterwards.

    SciPy carries an OpenBLAS of its own, which compiled `np.dot` uses: it is loaded first, or the limit would miss it.
    """
    import scipy.linalg.cython_blas  # noqa: F401
    with threadpool_limits(limits=1, user_api="blas"):
        yield

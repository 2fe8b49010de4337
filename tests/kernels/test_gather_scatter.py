import numpy as np
import pytest

from ampnet.kernels.gather_scatter import gather, scatter_add
from tests import naive


@pytest.mark.parametrize("rows, width", [(0, 3), (1, 1), (5, 8), (40, 33), (3, 0), (9, 7)])
def test_gather_and_its_backward(rows, width):
    rng = np.random.default_rng(rows)
    table, ids = rng.normal(size=(6, width)).astype(np.float32), rng.integers(0, 6, rows)
    out = np.zeros((rows, width), np.float32)
    gather(table, ids.astype(np.float32), out)
    assert np.array_equal(out, naive.gather(table, ids))
    gradient, d = np.ones((6, width), np.float32), rng.normal(size=(rows, width)).astype(np.float32)
    scatter_add(gradient, ids.astype(np.float32), d)
    expected = naive.scatter_add(np.ones((6, width)), ids, d)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


def test_scatter_is_the_transpose_of_gather():
    """<gather(T), D> = <T, scatter(D)> for any T and D, so one is the other's backward."""
    rng = np.random.default_rng(3)
    table, d, ids = rng.normal(size=(6, 8)), rng.normal(size=(20, 8)), rng.integers(0, 6, 20).astype(np.float32)
    table, d = table.astype(np.float32), d.astype(np.float32)
    out, gradient = np.empty((20, 8), np.float32), np.zeros((6, 8), np.float32)
    gather(table, ids, out)
    scatter_add(gradient, ids, d)
    assert (out.astype(float) * d).sum() == pytest.approx((table.astype(float) * gradient).sum(), rel=1e-5)

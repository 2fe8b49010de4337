import numpy as np
import pytest

from ampnet.kernels.gather_scatter import gather, scatter_add


@pytest.mark.parametrize("rows, width", [(0, 3), (1, 1), (5, 8), (40, 33)])
def test_gather_and_its_backward(rows, width):
    rng = np.random.default_rng(rows)
    table, ids = rng.normal(size=(6, width)).astype(np.float32), rng.integers(0, 6, rows)
    out = np.zeros((rows, width), np.float32)
    gather(table, ids.astype(np.float32), out)
    assert np.array_equal(out, table[ids])
    gradient, d = np.ones((6, width), np.float32), rng.normal(size=(rows, width)).astype(np.float32)
    scatter_add(gradient, ids.astype(np.float32), d)
    expected = np.ones((6, width))
    np.add.at(expected, ids, d)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)

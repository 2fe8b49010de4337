import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampnet.kernels.optimizers import CODES, SCHEDULES, clip_factor, learning_rate, squared_norm, step
from tests import naive

HYPER = {"rate": 0.03, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8, "decay": 0.01}
NAMES = list(CODES)


def run(name, gradients, w, scale=1.0, **changes):
    hyper = HYPER | changes
    w = w.astype(np.float32)
    first, second = np.zeros((2, len(w)), np.float32)
    for number, g in enumerate(gradients, 1):
        g = (g / scale).astype(np.float32)
        step(CODES[name], w, g, first, second, scale, hyper["rate"], hyper["beta1"], hyper["beta2"], hyper["epsilon"],
             hyper["decay"], number)
        assert not g.any()
    return w


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 33, 1000])
def test_steps_equal_the_twin(name, size):
    rng = np.random.default_rng(size)
    w, gradients = rng.normal(size=size), rng.normal(size=(5, size))
    got = run(name, gradients, w, scale=0.125)
    first = second = np.zeros(size)
    for number, g in enumerate(gradients, 1):
        w, first, second = naive.step(name, w, g, first, second, number=number, **HYPER)
    np.testing.assert_allclose(got, w, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("beta2", [0.99, 0.999])
def test_steps_equal_torch(name, beta2):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    w, gradients = rng.normal(size=50), rng.normal(size=(8, 50))
    parameter = torch.nn.Parameter(torch.tensor(w, dtype=torch.float64))
    lr, decay = HYPER["rate"], HYPER["decay"]
    optimizer = {
        "sgd": lambda: torch.optim.SGD([parameter], lr, weight_decay=decay),
        "momentum": lambda: torch.optim.SGD([parameter], lr, momentum=0.9, weight_decay=decay),
        "adagrad": lambda: torch.optim.Adagrad([parameter], lr, weight_decay=decay, eps=1e-8),
        "adam": lambda: torch.optim.Adam([parameter], lr, betas=(0.9, beta2), eps=1e-8, weight_decay=decay),
    }[name]()
    for g in gradients:
        parameter.grad = torch.tensor(g)
        optimizer.step()
    np.testing.assert_allclose(run(name, gradients, w, beta2=beta2), parameter.detach().numpy(), rtol=1e-6, atol=1e-6)


def test_the_rest_of_beta2_is_not_rounded_twice():
    """1 - float32(0.999) is 1.3e-5 too small, and the second moment with it."""
    w, g, first, second = (np.full(9, x, np.float32) for x in (1, 2, 0, 0))
    step(CODES["adam"], w, g, first, second, 1.0, 0.1, 0.9, 0.999, 1e-8, 0.0, 1)
    np.testing.assert_allclose(second, 0.004, rtol=2e-7)
    np.testing.assert_allclose(first, 0.2, rtol=2e-7)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 7, 8, 9, 33, 1000])
def test_squared_norm(size):
    g = np.random.default_rng(size).normal(size=size).astype(np.float32)
    assert squared_norm(g) == pytest.approx(naive.squared_norm(g), rel=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_squared_norm_shows_what_is_not_finite_wherever_it_is(value):
    for at in range(37):
        g = np.ones(37, np.float32)
        g[at] = value
        assert not np.isfinite(squared_norm(g))
    assert np.isfinite(squared_norm(np.full(37, 3e38, np.float32)))


def test_clip_factor():
    for squared, scale, clip in np.random.default_rng(0).uniform(0, 3, (50, 3)):
        assert clip_factor(squared, scale, clip) == pytest.approx(naive.clip_factor(squared, scale, clip))
    assert clip_factor(0.0, 1.0, 1.0) == 1.0
    assert clip_factor(25.0, 1.0, 0.0) == 1.0
    assert clip_factor(25.0, 1.0, 6.0) == 1.0
    assert clip_factor(25.0, 1.0, 1.0) == pytest.approx(0.2)
    assert clip_factor(25.0, 0.1, 1.0) == 1.0


def test_schedules():
    def rate(name, instances, warmup=0):
        return learning_rate(SCHEDULES[name], 2.0, instances, 1000, warmup, 100, 0.5)

    assert [rate("constant", i) for i in (0, 500, 5000)] == [2.0] * 3
    assert [rate("step", i) for i in (0, 99, 100, 250)] == [2.0, 2.0, 1.0, 0.5]
    assert rate("cosine", 0) == 2.0 and rate("cosine", 500) == pytest.approx(1.0)
    assert rate("cosine", 1000) == rate("cosine", 2000) == pytest.approx(0.0, abs=1e-15)
    assert rate("constant", 0, warmup=10) == pytest.approx(0.2)
    assert rate("constant", 9, warmup=10) == rate("constant", 10, warmup=10) == 2.0


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(list(SCHEDULES)), st.integers(0, 3000), st.integers(1, 2000), st.integers(0, 500),
       st.integers(1, 700))
def test_schedules_equal_the_twin(name, instances, total, warmup, step_every):
    arguments = (0.3, instances, total, warmup, step_every, 0.7)
    expected = naive.learning_rate(name, *arguments)
    assert learning_rate(SCHEDULES[name], *arguments) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_means_the_same_for_any_update_frequency(name):
    """The rate of an update depends on the instances seen, not on how many updates there were."""
    def rates(frequency):
        return {i: learning_rate(SCHEDULES[name], 0.3, i, 600, 50, 70, 0.5) for i in range(0, 600, frequency)}

    every = rates(1)
    assert all(rates(f)[i] == every[i] for f in (2, 7, 100) for i in rates(f))
    assert every[0] > 0

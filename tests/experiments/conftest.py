"""Reproductions of a size that takes seconds."""

import pytest

from ampnet.experiments.paper import sizes
from ampnet.experiments.paper.lab import Lab
from ampnet.experiments.paper.spec import Spec

TINY = {"limit": 40, "hidden": 8, "epochs": 2}


@pytest.fixture
def tiny():
    """A run of half a second; changes: of its options."""
    def make(seed=0, **changes):
        return Spec("list-reduction", {**TINY, "target": 1.0, "max_active_keys": 4} | changes, seed)
    return make


@pytest.fixture
def quick_sizes(monkeypatch):
    """--quick is next to nothing: list reduction with two numbers of instances in flight."""
    size = sizes.Size((4,), {**TINY, "target": 0.05}, (sizes.MESSAGES,))
    for name in ("QUICK", "FULL"):
        monkeypatch.setattr(sizes, name, {"list-reduction": size})
    monkeypatch.setattr(sizes, "SWEEP_QUICK", ((2, 4), (25, 100)))


@pytest.fixture
def lab(tmp_path):
    """A lab, what it told in `lab.told`."""
    told = []
    with Lab("a", True, [0, 1], tmp_path, None, told.append) as made:
        made.told = told
        yield made

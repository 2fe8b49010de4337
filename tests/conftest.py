"""Fixtures for tests of several packages: run directories, and small data."""

import pytest
from hypothesis import settings

from ampnet import datasets


@pytest.fixture
def run_dir(tmp_path):
    """Where a run may write; it does not exist yet."""
    return tmp_path / "run"


@pytest.fixture(scope="session")
def lists():
    """List reduction with 10,000 validation instances cut down to 50."""
    data = datasets.load("list-reduction", seed=0)
    return datasets.Dataset(data.name, data.train.take(300), data.valid.take(50), meta=data.meta)

# The first example compiles; and machines are shared.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

"""Data sets, all in one in-memory form: ragged columns (`columns.py`); `catalog.py` finds, fetches and checks files."""

from ampnet.datasets.catalog import load
from ampnet.datasets.columns import Column, Dataset, Instances

__all__ = ["Column", "Dataset", "Instances", "load"]

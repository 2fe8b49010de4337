"""What tests are made of, for users' own node kinds and models too."""

from . import cell_twins, graph_twins, twins  # noqa: F401  (they register themselves)
from .invariant import check_drained
from .reference import Reference, reference

__all__ = ["Reference", "check_drained", "reference"]

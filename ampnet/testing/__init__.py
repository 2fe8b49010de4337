"""What tests are made of, for users' own node kinds and models too."""

from .invariant import check_drained
from .reference import Reference, reference

__all__ = ["Reference", "check_drained", "reference"]

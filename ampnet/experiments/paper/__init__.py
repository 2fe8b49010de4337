"""Tables and figures of the paper, measured anew: one module a reproduction, imported when it is run.

A reproduction has `NAME`, `ABOUT`, a line on what it shows, and `reproduce(lab)`, which trains by `lab.train` and writes by
`lab.write_table` and `lab.save`.
"""

from importlib import import_module

NAMES = ("table1", "fig1", "convergence", "sweep", "replicas", "staleness", "devices")   # in the order of `all`


def find(name):
    """The module of a reproduction."""
    return import_module(f".{name}", __name__)

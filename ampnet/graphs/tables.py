"""Tables: an instance's integer columns, which state functions look things up in: `tree.parent[s.node]`.

A table is read-only and as long as its column has rows for the instance. Outside of it everything is -1, as the parent of
a root is; so a state function can never read what is not there. In Python a `Table` is a list of that kind; in compiled
code it is an address and a size.
"""

import operator
from collections import namedtuple
from functools import cache

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

from ..runtime.atomics import load
from ..runtime.memory import LINE, helper, short_integer
from ..runtime.records import COLUMN

NOTHING = -1


class Table:
    """A table in plain Python."""

    def __init__(self, values):
        self.values = [int(v) for v in values]

    def __getitem__(self, i):
        return self.values[i] if 0 <= i < len(self.values) else NOTHING

    def __len__(self):
        return len(self.values)


class TableType(types.Type):
    """What compiled code sees."""

    def __init__(self):
        super().__init__(name="Table")


TABLE = TableType()


@register_model(TableType)
class TableModel(models.StructModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, [("address", types.int64), ("size", types.int64)])


@intrinsic
def make_table(context, address, size):
    def generate(context, builder, signature, arguments):
        struct = cgutils.create_struct_proxy(TABLE)(context, builder)
        struct.address, struct.size = arguments
        return struct._getvalue()
    return TABLE(types.int64, types.int64), generate


def _part(name):
    @intrinsic
    def part(context, table):
        def generate(context, builder, signature, arguments):
            return getattr(cgutils.create_struct_proxy(TABLE)(context, builder, value=arguments[0]), name)
        return types.int64(TABLE), generate
    return part


address_of, size_of = _part("address"), _part("size")


@overload(operator.getitem)
def _getitem(table, i):
    if isinstance(table, TableType) and isinstance(i, types.Integer):
        def get(table, i):
            i = np.int64(i)
            return np.int64(short_integer(address_of(table) + 4 * i)) if 0 <= i < size_of(table) else NOTHING
        return get
    return None


@overload(len)
def _len(table):
    if isinstance(table, TableType):
        return lambda table: size_of(table)
    return None


@helper
def table_of(columns, number, instance):
    """The table of an instance in column `number` of a run."""
    column = COLUMN(columns + LINE * number)
    first = load(column.offsets + 8 * np.int64(instance))
    return make_table(column.values + 4 * first, load(column.offsets + 8 * np.int64(instance) + 8) - first)


@cache
def tables_function(tables):
    """A function (columns, instance) -> named tuple of tables, for compiled code; tables: ((name, column number), ...)."""
    kind = namedtuple("Tables", [name for name, _ in tables])
    arguments = ", ".join(f"table_of(columns, {number}, instance)" for _, number in tables)
    scope = {"Tables": kind, "table_of": table_of}
    exec(f"def tables_of(columns, instance): return Tables({arguments})", scope)   # one argument a table: no loop over types
    return helper(scope["tables_of"])


def in_python(tables):
    """Name -> values as a named tuple of `Table`s."""
    return namedtuple("Tables", list(tables))(*map(Table, tables.values()))

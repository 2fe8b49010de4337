"""Our matrix products against a BLAS, on one thread, for the row counts that messages bring. `python -m benchmarks.kernels`.

    forward            Y  = X W        product         np.dot(x, w, y)
    input gradient     dX = D W^T      product         np.dot(d, w.T, dx)    ours from the transposed copy that nodes renew
    weight gradient    dW += X^T D     outer_product   sgemm with beta 1     after an update, not for each call

If W is far, product_panels takes the place of product, on the copies that nodes renew. Ours are called as `Linear` and the
cells call them: forward and input gradient by tables of row addresses, where every row lies in a block of its own as in one-row
messages; the weight gradient on rows that were put aside in panels, at most 128 a time. The BLAS has all its rows in one
matrix, which is kind to it: a node would have to copy them there first. The bias is no part of our product (elements.py times
it), nor of the BLAS's.

Both run in compiled loops of some milliseconds, by turns, timed by the thread's processor time; a number is the median over the
rounds. Operands are hot: every call of a loop works on the same ones. Results are compared with each other before anything is
timed.

The BLAS is SciPy's copy, which compiled np.dot calls, at one row its GEMV. `--blas numpy`, or a missing SciPy, takes NumPy's
own through a loop in Python instead: some tenths of a microsecond more a call, and its weight gradient overwrites dW.
"""

import ctypes
from statistics import median

import numpy as np
from numba import njit
from numba.extending import get_cython_function_address
from threadpoolctl import threadpool_info, threadpool_limits

from ampnet.kernels.gemm import FEW as FEW_ROWS
from ampnet.kernels.gemm import is_far, product, transpose
from ampnet.kernels.outer import ROWS, d_size, outer_product, put_d, put_x, x_size
from ampnet.kernels.panels import pack, panels_size, product_panels
from ampnet.runtime.memory import LINE, allocate, size_of

from .rounds import by_turns, print_table, seconds

BATCH_FLOPS = 40_000_000   # of one timed loop: about 2 ms
FEW = range(4, 25)         # row counts that most calls have
TOLERANCE = 1e-5           # of ||ours - BLAS|| / ||BLAS||


@njit(nogil=True)
def our_products(calls, x_rows, w, y_rows):
    for _ in range(calls):
        product(x_rows, w, y_rows, len(x_rows), 0)


@njit(nogil=True)
def our_panel_products(calls, x_rows, panels, inner, outer, y_rows):
    for _ in range(calls):
        product_panels(x_rows, panels, inner, outer, y_rows, len(x_rows), 0)


@njit(nogil=True)
def our_outer_products(calls, x, d, rows, g):
    """x, d: panels, a row of either array for each ROWS rows."""
    for _ in range(calls):
        for piece in range(len(x)):
            outer_product(x[piece].ctypes.data, d[piece].ctypes.data, min(ROWS, rows - piece * ROWS), g)


@njit(nogil=True)
def compiled_dots(calls, a, b, out):
    for _ in range(calls):
        np.dot(a, b, out)


def python_dots(calls, a, b, out):
    for _ in range(calls):
        np.dot(a, b, out=out)


@njit(nogil=True)
def sgemm_calls(calls, sgemm, keep, turn, one, rows, inputs, outputs, x, d, g):
    """BLAS counts by columns: it sees dW^T (outputs, inputs) += D^T X."""
    for _ in range(calls):
        sgemm(keep.ctypes, turn.ctypes, outputs.ctypes, inputs.ctypes, rows.ctypes, one.ctypes, d.ctypes, outputs.ctypes,
              x.ctypes, inputs.ctypes, one.ctypes, g.ctypes, outputs.ctypes)


def add_by_sgemm(calls, x, d, g):
    """g += x.T @ d by SciPy's sgemm, in a compiled loop."""
    address = get_cython_function_address("scipy.linalg.cython_blas", "sgemm")
    sgemm = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(address)
    keep, turn = np.array([ord("N")], np.uint8), np.array([ord("T")], np.uint8)
    rows, inputs, outputs = (np.array([n], np.int32) for n in (x.shape[0], *g.shape))
    sgemm_calls(calls, sgemm, keep, turn, np.ones(1, np.float32), rows, inputs, outputs, x, d, g)


class Blas:
    """One of the BLAS libraries of this process: `dots` (calls, a, b, out), `add_products` (calls, x, d, g)."""

    def __init__(self, owner=None):
        try:
            import scipy.linalg.cython_blas  # noqa: F401
        except ImportError:
            if owner == "scipy":
                raise
            owner = "numpy"
        self.owner = owner or "scipy"
        self.adds = self.owner == "scipy"
        if self.adds:
            self.dots, self.add_products = compiled_dots, add_by_sgemm
        else:
            self.dots, self.add_products = python_dots, lambda calls, x, d, g: python_dots(calls, x.T, d, g)

    def describe(self):
        """A line for each BLAS loaded; wheels of NumPy and SciPy bring one each."""
        lines = []
        for pool in threadpool_info():
            if pool["user_api"] == "blas":
                where = pool["filepath"]
                owner = next((name for name in ("scipy", "numpy") if f"/{name}.libs/" in where), "shared")
                timed = " <- timed" if owner in (self.owner, "shared") else ""
                lines.append(f"{owner}: {pool['internal_api']} {pool['version']}, {pool.get('architecture', 'unknown')}, "
                             f"{pool['num_threads']} thread(s){timed}")
        return sorted(lines)


class Rows:
    """A random matrix in two places: one `matrix` for the BLAS, and `scattered` as in messages of a row, with their `table`."""

    def __init__(self, rng, rows, width):
        step = (LINE + (LINE << size_of.py_func(4 * width))) // 4
        blocks = allocate("f4", rows * step).reshape(rows, step)
        self.scattered = blocks[:, LINE // 4:LINE // 4 + width]
        self.matrix = rng.standard_normal((rows, width)).astype(np.float32)
        self.scattered[...] = self.matrix
        self.table = np.array([row.ctypes.data for row in self.scattered], np.int64)

    def aside(self, put, size):
        """Put aside as for a weight gradient."""
        rows, width = self.matrix.shape
        panels = np.zeros((-(-rows // ROWS), size(width)), np.float32)
        for piece, start in zip(panels, range(0, rows, ROWS), strict=True):
            put(self.table[start:], min(ROWS, rows - start), width, piece.ctypes.data, 0)
        return panels


def our_loop(x_rows, w, y_rows, has_copy):
    """Y = X W as nodes do it, with its arguments; has_copy: W itself is a copy, always in panels if far."""
    inner, outer = w.shape
    if not is_far.py_func(inner, outer) or (len(x_rows) <= FEW_ROWS and not has_copy):
        return our_products, x_rows, w, y_rows
    panels = np.zeros(panels_size(inner, outer), np.float32)
    pack(w, 0, panels)
    return our_panel_products, x_rows, panels, inner, outer, y_rows


def loops(kind, rows, inputs, outputs, blas):
    """(our loop, the BLAS's, distance between the results of one call each); the loops take the number of calls."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((inputs, outputs)).astype(np.float32)
    x, d = Rows(rng, rows, inputs), Rows(rng, rows, outputs)
    if kind == "forward":
        y = Rows(rng, rows, outputs)
        ours, theirs = our_loop(x.table, w, y.table, False), (blas.dots, x.matrix, w, y.matrix)
        results = y.scattered, y.matrix
    elif kind == "input gradient":
        dx, transposed = Rows(rng, rows, inputs), np.empty((outputs, inputs), np.float32)
        transpose(w, transposed)
        ours = our_loop(d.table, transposed, dx.table, True)
        theirs = blas.dots, d.matrix, w.T, dx.matrix
        results = dx.scattered, dx.matrix
    else:
        results = np.zeros((inputs, outputs), np.float32), np.zeros((inputs, outputs), np.float32)
        ours = our_outer_products, x.aside(put_x, x_size), d.aside(put_d, d_size), rows, results[0]
        theirs = blas.add_products, x.matrix, d.matrix, results[1]

    def bind(loop, *arguments):
        return lambda calls: loop(calls, *arguments)

    ours, theirs = bind(*ours), bind(*theirs)
    ours(1)
    theirs(1)
    return ours, theirs, np.linalg.norm(results[0] - results[1]) / np.linalg.norm(results[1])


def compare(kind, rows, inputs, outputs, rounds, blas):
    """One product, timed: a dict with the GFLOP/s of the rounds' medians."""
    ours, theirs, distance = loops(kind, rows, inputs, outputs, blas)
    if not distance < TOLERANCE:
        raise AssertionError(f"{kind}, {rows} rows of {inputs}x{outputs}: ours and the BLAS's differ by {distance:.1e}")
    flops = 2 * rows * inputs * outputs
    calls = max(1, BATCH_FLOPS // flops)
    found = by_turns({"ours": lambda: seconds(ours, calls), "blas": lambda: seconds(theirs, calls)}, rounds)
    rate = {name: calls * flops / median(times) / 1e9 for name, times in found.items()}
    return {"rows": rows, "inputs": inputs, "outputs": outputs, **rate, "ratio": rate["ours"] / rate["blas"]}


def name_worst(cases):
    worst = min(cases, key=lambda case: case["ratio"])
    return f"{worst['ratio']:.2f} at {worst['rows']} rows of {worst['inputs']}x{worst['outputs']}"


def print_cases(cases, rows, shapes):
    """A line for each row count, a column for each shape."""
    cells = {(c["rows"], c["inputs"], c["outputs"]): f"{c['ours']:.1f} / {c['blas']:.1f} = {c['ratio']:.2f}" for c in cases}
    print_table(["rows", *(f"{i}x{o}" for i, o in shapes)],
                [[str(r), *(cells[r, i, o] for i, o in shapes)] for r in rows])
    text = f"worst ratio: {name_worst(cases)}"
    few = [case for case in cases if case["rows"] in FEW]
    if few:
        text += f"; at {FEW[0]}-{FEW[-1]} rows: {name_worst(few)}"
    print(f"\n{text}\n", flush=True)


def run(kinds, rows, shapes, rounds, owner):
    """Time and print the products of `kinds`; returns what goes into the JSON file."""
    blas = Blas(owner)
    results = {}
    with threadpool_limits(1, user_api="blas"):
        results["blas"] = blas.describe()
        print("\n".join(results["blas"]), end="\n\n")
        for kind in kinds:
            note = "" if blas.adds or kind != "weight gradient" else " (the BLAS's overwrites dW)"
            print(f"{kind}{note}: GFLOP/s, ours / BLAS = ratio; operands hot; medians of {rounds} rounds\n", flush=True)
            cases = [compare(kind, r, *shape, rounds, blas) for r in rows for shape in shapes]
            print_cases(cases, rows, shapes)
            results[kind] = cases
    return results

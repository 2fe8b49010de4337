"""Speed of the compiled kernels: matrix products against a BLAS, cells against NumPy.

    python -m benchmarks.kernels [gemm] [gradient] [cells] [--rows R ...] [--shapes IxO ...] [--rounds N]
                                 [--blas scipy|numpy] [--json FILE]

gemm: Y = X W as `Linear` computes it; gradient: dX = D W^T and dW += X^T D; cells: element-wise passes of the recurrent cells,
activations, exp and tanh. All three by default. One thread. See products.py and elements.py for what is timed and how.

OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE, where they are set, make OpenBLAS choose kernels or block sizes that it would not choose
for this machine. They are removed from the environment before NumPy, and with it a BLAS, is loaded; where NumPy has been
imported already, the program starts itself anew without them.
"""

import argparse
import json
import os
import sys
from pathlib import Path

PARTS = ("gemm", "gradient", "cells")
ROWS = (1, 2, 3, 5, 8, 12, 16, 24, 32, 48, 64, 100, 200, 500)
SHAPES = ("100x100", "144x128", "200x300", "256x640", "784x784")
DISTORTING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def use_undistorted_blas():
    """Remove the variables that change OpenBLAS's choices; must come before the first import of NumPy."""
    removed = [name for name in DISTORTING if os.environ.pop(name, None) is not None]
    if removed:
        print(f"{' and '.join(removed)} removed from the environment", flush=True)
        if "numpy" in sys.modules:
            os.execv(sys.executable, sys.orig_argv)


def parse_shape(text):
    inputs, outputs = (int(part) for part in text.split("x"))
    return inputs, outputs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument("--rows", nargs="+", type=int, default=ROWS, help="of X and D")
    parser.add_argument("--shapes", nargs="+", type=parse_shape, default=[parse_shape(s) for s in SHAPES], metavar="IxO",
                        help="of W, inputs x outputs")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--blas", choices=("scipy", "numpy"), help="whose copy (default: scipy's where there is one)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    for part in options.parts:
        if part not in PARTS:
            parser.error(f"unknown part '{part}'; known: {', '.join(PARTS)}")
    use_undistorted_blas()
    from . import elements, products  # NumPy comes with them
    parts, results = options.parts or PARTS, {}
    if "gemm" in parts or "gradient" in parts:
        kinds = ["forward"] * ("gemm" in parts) + ["input gradient", "weight gradient"] * ("gradient" in parts)
        results |= products.run(kinds, options.rows, options.shapes, options.rounds, options.blas)
    if "cells" in parts:
        results |= elements.run(options.rounds)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

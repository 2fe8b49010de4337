"""What `ampnet info` prints: all that a question about speed starts with."""

import os
import platform
from importlib.metadata import version

from ..training.config import versions
from . import TASKS

SIMD = ("sse4.2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512vl", "neon", "sve")


def describe() -> dict:
    """Name -> text, in the order to print."""
    import llvmlite.binding as llvm
    import scipy.linalg.cython_blas  # noqa: F401  its OpenBLAS is the one compiled products use
    from threadpoolctl import threadpool_info

    from ..kernels import CACHE_FOLDER, cache
    warm = ", ".join(task for task in TASKS if cache.is_warm(CACHE_FOLDER, task))
    found = versions() | {name: version(name) for name in ("llvmlite", "scipy")}
    features = llvm.get_host_cpu_features()
    blas = [f"{p['internal_api']} {p.get('version') or ''} ({p['num_threads']} threads)"
            for p in threadpool_info() if p["user_api"] == "blas"]
    return {
        "ampnet": found.pop("ampnet"),
        "versions": ", ".join(f"{name} {number}" for name, number in found.items()),
        "system": f"{platform.system()} {platform.machine()}, {llvm.get_host_cpu_name()}",
        "cores": f"{usable_cores()} usable of {os.cpu_count()}",
        "simd": ", ".join(name for name in SIMD if features.get(name)) or "none known",
        "blas": ", ".join(blas) or "none",
        "kernels": f"{CACHE_FOLDER} ({f'warm for {warm}' if warm else 'cold'})",
    }


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

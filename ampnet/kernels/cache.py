"""Where compiled kernels are kept between runs.

Numba keys its disk cache on the file of the decorated function alone, so an edit in a callee of another file would leave
stale machine code in use. The directory is therefore named after a hash of all compiled sources, the versions and the CPU,
and is set before the first kernel is imported. A user's own `NUMBA_CACHE_DIR` is respected.
"""

import hashlib
import os
import platform
import tempfile
from pathlib import Path

import llvmlite.binding
import numba
import numpy

COMPILED_PACKAGES = ("kernels", "runtime", "graphs/nodes")


def fingerprint() -> str:
    """Hash of everything the machine code depends on."""
    digest = hashlib.sha256()
    package = Path(__file__).resolve().parent.parent
    for name in COMPILED_PACKAGES:
        for path in sorted((package / name).glob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    cpu = llvmlite.binding.get_host_cpu_name() + llvmlite.binding.get_host_cpu_features().flatten()
    digest.update("|".join([numba.__version__, numpy.__version__, platform.python_version(), cpu]).encode())
    return digest.hexdigest()[:16]


def user_cache() -> Path:
    """The user's cache folder, or a temporary one where there is no home to write to."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = Path(base) if base else Path(os.path.expanduser("~")) / ".cache"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder / "ampnet"
    except OSError:
        pass
    return Path(tempfile.gettempdir()) / f"ampnet-{os.getuid()}"


def use_integer_addresses() -> None:
    """Keep LLVM from splitting our addresses into a null pointer and an offset.

    Numba links the machine-prepared IR of a callee into its callers. That preparation rewrites inttoptr(base + offset) as
    inttoptr(offset) + base; inlined where the offset is the constant 0, this is an access through null, and LLVM drops it
    without a word. With this switch it writes integer sums instead.
    """
    llvmlite.binding.set_option("ampnet", "-addr-sink-using-gep=0")


def configure() -> Path:
    """Set LLVM and Numba up for our kernels; return the cache directory in use."""
    use_integer_addresses()
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"])
    folder = user_cache() / "kernels" / fingerprint()
    numba.config.CACHE_DIR = str(folder)
    return folder


def is_warm(folder: Path) -> bool:
    """True when every kernel was compiled and stored by an earlier run."""
    return (folder / "complete").exists()


def mark_warm(folder: Path) -> None:
    """Remember that all kernels are stored; a folder that cannot be written is no error."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "complete").touch()
    except OSError:
        pass

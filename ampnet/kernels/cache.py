"""Where compiled kernels are kept between runs.

Numba keys its disk cache on the file of the decorated function alone, so an edit in a callee of another file would leave
stale machine code in use. The directory is therefore named after a hash of all compiled sources, the versions and the CPU,
and is set before the first kernel is imported. A user's own `NUMBA_CACHE_DIR` is respected.
"""

import hashlib
import os
import platform
import stat
import tempfile
import warnings
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
    return _private(Path(tempfile.gettempdir()) / f"ampnet-{os.getuid()}")


def _private(folder: Path) -> Path:
    """The folder, if it is this user's alone, else a new one: what lies in a cache is run, and anyone can make the first."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022:
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="ampnet-"))


def mend() -> None:
    """Let a cache file that cannot be read count as one that is not there: its kernel is compiled again, the file replaced.

    Numba lets the error through, so that the import would die of a file which a full disk has cut off.
    """
    from numba.core.caching import IndexDataCacheFile
    load_index, load_data = IndexDataCacheFile._load_index, IndexDataCacheFile._load_data

    def index(self):
        try:
            return load_index(self)
        except Exception:   # whatever unpickling damaged bytes leads to
            warnings.warn(f"{self._index_path}: damaged, so what it lists is compiled again", stacklevel=2)
            return {}

    def data(self, name):
        try:
            return load_data(self, name)
        except OSError:
            raise
        except Exception as error:
            warnings.warn(f"{self._data_path(name)}: damaged, so it is compiled again", stacklevel=2)
            raise OSError(f"{name}: damaged") from error   # which Numba takes for a missing file

    IndexDataCacheFile._load_index, IndexDataCacheFile._load_data = index, data


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
    mend()
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"])
    folder = user_cache() / "kernels" / fingerprint()
    numba.config.CACHE_DIR = str(folder)
    return folder


def is_warm(folder: Path, task: str) -> bool:
    """True when the kernels of a task were compiled and stored by an earlier run."""
    return (folder / f"{task}.complete").exists()


def mark_warm(folder: Path, task: str) -> None:
    """Remember that the kernels of a task are stored; a folder that cannot be written is no error."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{task}.complete").touch()
    except OSError:
        pass

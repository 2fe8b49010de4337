"""On what machine, and with what versions, something was measured."""

import os
import platform
import subprocess
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ...training.config import versions
from ..info import usable_cores

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY")
OPTIONAL = ("scipy", "torch", "matplotlib")


def describe() -> dict:
    """Facts by name, all of them JSON values."""
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": _cpu(), "cores": usable_cores(), "cores of the machine": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions() | {name: found for name in OPTIONAL if (found := _version(name))},
        "commit": _commit(),
        "threads": {"BLAS in workers": 1, **{name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ}},
    }


def _cpu():
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit():
    """Of the checkout this package lies in, "+" where files were changed since; None where it is installed."""
    place = Path(__file__).parent
    if _git(place, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None
    commit, changed = _git(place, "rev-parse", "--short", "HEAD"), _git(place, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}{'+' if changed else ''}"


def _git(place, *arguments):
    try:
        result = subprocess.run(["git", "-C", place, *arguments], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None

"""Compile operations on two cores, the first time.

Compiled operations are stored on disk. So as soon as one turns out not to be stored, a second process is started; the two
share the rest, claiming one after the other, and what the second has compiled is loaded from disk.
"""

import os
import subprocess
import sys
from contextlib import nullcontext
from importlib import import_module

WORTH_SHARING = 4   # operations; the second process takes a second or two to come up
MOST_CLAIMS = 256   # a claim is a byte
START = "import os, sys; sys.path[:] = sys.argv[1].split(os.pathsep); " \
        "from ampnet.runtime.precompile import help_out; help_out(int(sys.argv[2]), sys.argv[3:])"


def compile_operations(operations):
    """Compile operations, or load those that are stored; on two cores where there are two and enough to do.

    The first that is not stored is compiled before there is a second process: it had better be a small one.
    """
    left = list(dict.fromkeys(operations))
    while left:
        if left.pop(0).is_new:
            shared = [operation for operation in left if _is_importable(operation)][:MOST_CLAIMS]
            if len(shared) >= WORTH_SHARING and sys.executable and _cores() > 1:
                _share(shared)
                left = [operation for operation in left if operation not in shared]


def help_out(parent, names):
    """The second process: compile what it can claim, as long as its parent lives."""
    while os.getppid() == parent and (claim := os.read(0, 1)):
        module, _, name = names[claim[0]].rpartition(".")
        getattr(import_module(module), name).compile()


def _share(operations):
    """Compile operations beside a second process. It may fail: what it has not stored is compiled when it is loaded."""
    claims, source = os.pipe()
    try:
        os.write(source, bytes(range(len(operations))))
        os.close(source)
        with _second_process(operations, claims) as helper:
            try:
                while claim := os.read(claims, 1):
                    operations[claim[0]].compile()
            except BaseException:
                if helper is not None:
                    helper.kill()
                raise
    finally:
        os.close(claims)


def _second_process(operations, claims):
    """A context that ends when it has ended; gives None where no process can be started."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    names = [f"{operation.function.__module__}.{operation.function.__name__}" for operation in operations]
    try:
        return subprocess.Popen([sys.executable, "-c", START, path, str(os.getpid()), *names],
                                stdin=claims, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError:
        return nullcontext()


def _is_importable(operation):
    """Whether another process finds it: ours, not those of a user's script."""
    module = operation.function.__module__
    return module.startswith("ampnet.") and getattr(sys.modules[module], operation.function.__name__, None) is operation


def _cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

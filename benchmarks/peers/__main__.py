"""Training throughput of ours, PyTorch and JAX: the same models on the same data, in turns.

    python -m benchmarks.peers [WORK ...] [--data DIR] [--rounds N] [--seconds S] [--threads 1|2] [--json FILE] [--list]

First every contestant's loss and gradients are compared with ours. Then all of them train in each round, one after the other,
for about --seconds; a table a work gives medians. Forward, backward and update are timed; batches and schedules of peers are
prepared ahead. With one thread the process stays on one core; with two, ours trains two replicas, and JAX takes what it wants.
"""

import argparse
import json
import os
import platform
import sys
from pathlib import Path


def main():
    options = parse()
    if options.list:
        from .works import WORKS
        for work in WORKS.values():
            print(f"{work.name}: {work.title}; {'; '.join(peer.name for peer in work.peers)}")
        return
    settle_threads(options.threads)
    from ampnet.errors import AmpnetError

    from .check import Differs
    from .contest import Diverged
    from .play import play
    from .works import WORKS
    unknown = sorted(set(options.works) - set(WORKS))
    if unknown:
        sys.exit(f"unknown work '{unknown[0]}'; known: {', '.join(WORKS)}")
    record = {"machine": describe(), "threads": options.threads, "seconds": options.seconds, "works": {}}
    for name in options.works or WORKS:
        try:
            record["works"][name] = play(WORKS[name], options, tell)
        except (AmpnetError, Differs, Diverged) as error:
            sys.exit(f"{name}: {error}")
        if options.json:
            options.json.write_text(json.dumps(record, indent=1))


def parse():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__.splitlines()[0])
    parser.add_argument("works", nargs="*", metavar="WORK")
    parser.add_argument("--data", help="folder of the data files, as of `ampnet train`")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=1, choices=(1, 2))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--list", action="store_true", help="tell which works there are")
    return parser.parse_args()


def settle_threads(threads):
    """Before any library is imported: they look once at how many cores there are."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if hasattr(os, "sched_getaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < threads:
            sys.exit(f"--threads {threads}: this process may use {len(cores)} core(s)")
        if threads == 1:
            os.sched_setaffinity(0, cores[-1:])
    try:
        import torch
        torch.set_num_threads(threads)
    except ImportError:
        pass


def tell(line):
    """Progress goes to where it does not mix with the tables."""
    print(line, file=sys.stderr, flush=True)


def describe():
    from importlib.metadata import PackageNotFoundError, version

    from ampnet.experiments.info import describe as of_ours
    found = of_ours()
    for library in ("torch", "jax", "jaxlib"):
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = "none"
    return found | {"python": platform.python_version()}


if __name__ == "__main__":
    main()

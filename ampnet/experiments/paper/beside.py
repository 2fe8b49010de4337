"""Runs side by side, each in a process of its own; the results are read from their folders afterwards."""

from multiprocessing import get_context
from multiprocessing.connection import wait

from ...errors import AmpnetError
from ..stopping import Terminated, raises
from . import runs


def train(waiting, jobs, tell):
    """Train to their ends, at most `jobs` at a time. waiting: (Spec, folder, folder of the data files or None) of each.

    What fails here is told by whoever trains the run again, in its own process. An interruption stops all and is passed on.
    """
    context, waiting, running = get_context("spawn"), list(waiting), []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                spec, folder, data = waiting.pop(0)
                tell(f"beside one another: {spec.directory}")
                running.append(context.Process(target=_train, args=(spec, folder, data, jobs)))
                running[-1].start()
            wait([process.sentinel for process in running])
            running = [process for process in running if process.is_alive()]
    finally:
        for process in running:
            process.terminate()
            process.join()


def _train(spec, folder, data, jobs):
    try:
        with raises():
            runs.train(spec, folder, data, lambda line: print(f"{spec.directory}: {line}", flush=True), jobs)
    except (AmpnetError, KeyboardInterrupt, Terminated):
        pass   # the parent meets it too, and says so

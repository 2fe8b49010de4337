"""One work from its data to its table."""

from importlib import import_module

from . import report
from .check import compare
from .contest import compete
from .ours import Ours


def play(work, options, tell):
    """Check every contestant, let them compete, print the table; returns what --json keeps.

    Raises DataError; `Differs` where a contestant does not compute what ours does; `Diverged`.
    """
    sample = work.sample(work.task, work.options, options.data)
    ours = Ours(work, sample, options.threads, options.seconds)
    contestants, checks = [ours.contestant()], {}
    for peer in work.peers:
        module = load(peer)
        if module is None:
            tell(f"{work.name}, {peer.name}: skipped, there is no {peer.library}")
            continue
        contestant = getattr(module, peer.make)(peer.name, sample, ours.initial, work, **peer.options)
        error, where = compare(contestant, ours.gradients)
        checks[peer.name] = {"error": error, "at": where}
        tell(f"{work.name}, {peer.name}: computes the same, within {error:.1e} ({where})")
        contestants.append(contestant)
    result = compete(contestants, options.rounds, options.seconds, options.threads, tell)
    updates, flops = ours.updates_a_batch(), work.flops(sample)
    print(report.table(work, sample.note, result, flops, ours.settings(), updates), end="\n\n", flush=True)
    return {"rates": result.rates, "peak_gflops": result.peaks, "flops": flops, "sample": sample.note, "checks": checks,
            "ours": ours.settings(), "updates_a_batch": updates[0]}


def load(peer):
    """The peer's module, or None where its library is not there."""
    try:
        return import_module(f".{peer.module}", __package__)
    except ModuleNotFoundError as error:
        if error.name != peer.library:
            raise
        return None

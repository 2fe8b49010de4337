"""A contest: contestants train in turns, each for some time, round after round.

In turns, because the speed of a machine drifts by more than contestants differ: what one round does to a contestant it does to
its neighbours too. The order is turned around from round to round.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from time import perf_counter, sleep
from typing import NamedTuple

import numpy as np

from .. import peak

REST = 0.25         # seconds between two contestants, in which the threads of the one before fall asleep
PEAK_SECONDS = 0.2


class Batch(NamedTuple):
    """instances: their numbers; examples: what of them counts in rates; arrays: what the peer's model takes."""

    instances: np.ndarray
    examples: int
    arrays: tuple


@dataclass
class Contestant:
    """One who trains.

    step: train on the next batch and return how many examples it had; gradients: () -> (mean loss of an example, parameter of
    ours -> gradient) of the first batch, at the initial values and without an update; first: instances of that batch; both are
    None for ours, whom the others are compared with; warm: all that must happen once, such as compiling; finish: wait for what
    is under way; finite: whether all parameters are, for ours raises where they are not.
    """

    name: str
    step: Callable
    gradients: Callable | None = None
    first: np.ndarray | None = None
    warm: Callable = lambda: None
    finish: Callable = lambda: None
    finite: Callable = lambda: True


class Diverged(Exception):
    """A contestant's parameters are no numbers any more."""


@dataclass
class Result:
    """Rates by contestant, and the machine's peak in GFLOP/s; all of them one a round."""

    rates: dict[str, list[float]]
    peaks: list[float]


def in_turn(batches, train):
    """A `step` that trains on one batch after the other, again and again."""
    batches = cycle(batches)

    def step():
        batch = next(batches)
        train(*batch.arrays)
        return batch.examples

    return step


def compete(contestants, rounds, seconds, threads, tell):
    """Let each train for about `seconds` a round; `tell` takes a line a round."""
    for one in contestants:
        one.warm()
        rate(one, seconds / 5)
    result = Result({one.name: [] for one in contestants}, [])
    for number in range(1, rounds + 1):
        for one in contestants if number % 2 else reversed(contestants):
            sleep(REST)
            result.rates[one.name].append(rate(one, seconds))
        result.peaks.append(peak.measure(threads, min(seconds, PEAK_SECONDS)))
        latest = ", ".join(f"{name} {rates[-1]:,.0f}" for name, rates in result.rates.items())
        tell(f"round {number}: {latest} a second; peak {result.peaks[-1]:.0f} GFLOP/s")
    for one in contestants:
        if not one.finite():
            raise Diverged(f"{one.name}: diverged, its parameters are no longer finite")
    return result


def rate(contestant, seconds):
    """Examples a second, over whole steps that take `seconds` or a little more."""
    trained, started = 0, perf_counter()
    while perf_counter() - started < seconds:
        trained += contestant.step()
    contestant.finish()
    return trained / (perf_counter() - started)

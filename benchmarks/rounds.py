"""Timing by turns: what is compared runs alternately, so that a machine that slows down does so for all of it alike."""

from time import thread_time


def seconds(function, *arguments):
    """Processor time of one call in this thread; unlike wall time it stands still while another program has the core."""
    started = thread_time()
    function(*arguments)
    return thread_time() - started


def by_turns(measures, rounds):
    """Name -> list of `rounds` numbers; measures: name -> callable that runs once and returns its seconds.

    A round before the first warms up (and compiles). The order is turned around from round to round.
    """
    found = {name: [] for name in measures}
    for round_ in range(rounds + 1):
        names = list(measures)
        for name in names if round_ % 2 else reversed(names):
            value = measures[name]()
            if round_:
                found[name].append(value)
    return found


def print_table(head, rows):
    """A Markdown table; cells are text."""
    for row in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(row) + " |")

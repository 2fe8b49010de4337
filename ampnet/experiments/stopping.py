"""Ctrl-C and SIGTERM on the command line.

Python raises KeyboardInterrupt wherever it happens to be, and where that is a finaliser or a callback from C the exception is
lost; compiling is full of those. So:

- while nothing is there to clean up, kernels being compiled above all, a signal ends the process (`ends_at_once`)
- while a model trains, a signal is noted, and raised when the trainer next tells its observers something (`is_noted`)
- elsewhere it is raised (`raises`)

A second signal ends the process, by the system's own default, wherever it is.
"""

import os
import signal
import threading
from contextlib import contextmanager


class Terminated(BaseException):
    """SIGTERM, raised in the main thread so that workers are stopped and joined."""


EXCEPTIONS = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}
EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
WORDS = {signal.SIGINT: b"interrupted\n", signal.SIGTERM: b"terminated\n"}
SHOW_CURSOR = b"\x1b[?25h"   # a progress bar hides it


class Noted:
    """An observer of `Trainer.fit` that raises the signal that came meanwhile, if any."""

    def __init__(self):
        self.signal = None

    def note(self, number):
        self.signal = number

    def check(self, *_):
        if self.signal is not None:
            raise EXCEPTIONS[self.signal]

    epoch_started = progress = evaluating = epoch_ended = check


@contextmanager
def raises():
    """A signal is raised as an exception, where the main thread is."""
    def raise_it(number):
        raise EXCEPTIONS[number]

    with _handled(raise_it):
        yield


@contextmanager
def ends_at_once():
    """A signal ends the process with its exit code; no `finally` is run."""
    def end(number):
        os.write(2, WORDS[number])
        os._exit(EXIT_CODES[number])

    with _handled(end):
        yield


@contextmanager
def is_noted():
    """A signal is noted; gives the observer that raises it."""
    noted = Noted()
    with _handled(noted.note):
        yield noted


@contextmanager
def _handled(handle):
    """Handle the first signal with a function of its number. If none came, the handlers from before are put back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(number, _):
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        if os.isatty(1):
            os.write(1, SHOW_CURSOR)
        handle(number)

    handlers = {number: signal.getsignal(number) for number in EXCEPTIONS}
    # A shell's background jobs ignore Ctrl-C, and go on doing so.
    before = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, first)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is first:
                signal.signal(number, handler)

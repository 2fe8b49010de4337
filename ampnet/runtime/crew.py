"""The threads of a run, none of which may be left inside when what they work on is freed."""

import threading
import time

GOODBYE_SECONDS = 1.0   # a thread that did no work, or has done it, needs but a moment to end


class Crew:
    """Threads that call `work` once each, with one of `arguments`. `are_done` is set when all have returned.

    An interruption can hit anywhere, in the start of a thread too, which then may come to life later. So every thread has
    to pass a gate, and `dismiss` shuts it.
    """

    def __init__(self, work, arguments, name):
        self.are_done = threading.Event()
        self._work, self._gate, self._inside, self._is_shut = work, threading.Condition(), 0, False
        self._left = len(arguments)
        self._threads = [threading.Thread(target=self._body, args=(a,), daemon=True, name=f"{name}-{i}")
                         for i, a in enumerate(arguments)]

    def start(self):
        for thread in self._threads:
            thread.start()

    def join(self):
        """Wait for all; only after `start` has returned."""
        for thread in self._threads:
            thread.join()

    def dismiss(self):
        """Let no further thread in, and wait for those inside, interrupted or not; they must have been told to leave."""
        interruption, is_empty = None, False
        while not is_empty:
            try:
                with self._gate:
                    self._is_shut = True
                    while self._inside:
                        self._gate.wait()
                is_empty = True
            except BaseException as error:
                interruption = error
        if interruption is not None:
            raise interruption
        end = time.monotonic() + GOODBYE_SECONDS
        while any(t in self._threads for t in threading.enumerate()) and time.monotonic() < end:
            time.sleep(0.001)

    def _body(self, argument):
        with self._gate:
            if self._is_shut:
                return
            self._inside += 1
        try:
            self._work(argument)
        finally:
            with self._gate:
                self._inside -= 1
                self._left -= 1
                if self._left == 0:
                    self.are_done.set()
                self._gate.notify_all()

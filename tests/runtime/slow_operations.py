"""Stand-ins for operations, whose compilation takes a while and leaves a note of who did it."""

import os
import time
from pathlib import Path

COUNT, SECONDS = 20, 0.2


class SlowOperation:
    def __init__(self, name):
        self.name, self.is_stored, self.fails = name, False, False
        self.function = self
        self.__name__ = name

    @property
    def is_new(self):
        self.compile()
        return not self.is_stored

    def compile(self):
        if self.fails:
            raise ValueError(self.name)
        time.sleep(SECONDS)
        (Path(os.environ["COMPILED_BY"]) / f"{self.name} {os.getpid()}").touch()


operations = [SlowOperation(f"operation{i}") for i in range(COUNT)]
globals().update({operation.name: operation for operation in operations})

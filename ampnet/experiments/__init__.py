"""The tasks, and runs of them from the first check to the last line. Importing it brings in neither numpy nor kernels."""

from ..errors import SettingError
from . import babi15, list_reduction, mnist, qm9, sentiment
from .task import Task

TASKS = {task.name: task for task in (mnist.TASK, list_reduction.TASK, sentiment.TASK, babi15.TASK, qm9.TASK)}

__all__ = ["TASKS", "Task", "find"]


def find(name: str) -> Task:
    """The task of a name; SettingError names those that exist."""
    if name not in TASKS:
        raise SettingError(f"unknown task {name!r}; known: {', '.join(TASKS)}")
    return TASKS[name]

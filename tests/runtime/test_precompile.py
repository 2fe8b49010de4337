"""Operations that are not stored yet are compiled by two processes, each of them by one."""

import os
import shutil
import sys

import pytest

from ampnet.runtime import precompile
from ampnet.runtime.precompile import compile_operations

from . import slow_operations


@pytest.fixture
def operations(monkeypatch, tmp_path):
    """Fresh stand-ins, on a machine with two cores."""
    monkeypatch.setenv("COMPILED_BY", str(tmp_path))
    monkeypatch.setattr(precompile, "_cores", lambda: 2)
    monkeypatch.setattr(precompile, "_is_importable", lambda operation: True)
    for operation in slow_operations.operations:
        operation.is_stored, operation.fails = False, False
    return slow_operations.operations


def compiled(folder):
    """Pairs of an operation's name and the process that compiled it."""
    return sorted(tuple(path.name.split()) for path in folder.iterdir())


def names(operations):
    return sorted(operation.name for operation in operations)


def test_two_processes_share_what_is_not_stored(operations, tmp_path):
    compile_operations([*operations, operations[0]])
    assert [name for name, _ in compiled(tmp_path)] == names(operations)   # each by one of them
    processes = {process for _, process in compiled(tmp_path)}
    assert len(processes) == 2 and str(os.getpid()) in processes


def test_what_is_stored_is_loaded_without_a_second_process(operations, tmp_path, monkeypatch):
    monkeypatch.setattr(precompile.subprocess, "Popen", None)
    for operation in operations:
        operation.is_stored = True
    compile_operations(operations[:3])
    assert compiled(tmp_path) == [(name, str(os.getpid())) for name in names(operations[:3])]


@pytest.mark.parametrize("left", [1, precompile.WORTH_SHARING - 1])
def test_a_few_are_compiled_here(left, operations, tmp_path, monkeypatch):
    monkeypatch.setattr(precompile.subprocess, "Popen", None)
    compile_operations(operations[:1 + left])
    assert [name for name, _ in compiled(tmp_path)] == names(operations[:1 + left])


def test_one_core_compiles_alone(operations, tmp_path, monkeypatch):
    monkeypatch.setattr(precompile.subprocess, "Popen", None)
    monkeypatch.setattr(precompile, "_cores", lambda: 1)
    compile_operations(operations[:6])
    assert [name for name, _ in compiled(tmp_path)] == names(operations[:6])


@pytest.mark.parametrize("executable", [shutil.which("false"), "/nowhere/python"])
def test_a_second_process_that_fails_is_made_up_for(executable, operations, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", executable)
    compile_operations(operations[:7])
    assert compiled(tmp_path) == sorted((operation.name, str(os.getpid())) for operation in operations[:7])


def test_a_failure_here_ends_the_second_process(operations, tmp_path):
    for operation in operations[1:]:
        operation.fails = True   # here: the second process has its own
    with pytest.raises(ValueError, match="operation1"):
        compile_operations(operations)
    assert [name for name, _ in compiled(tmp_path)] == ["operation0"]


def test_a_second_process_stops_when_its_parent_has_gone(operations, tmp_path):
    precompile.help_out(parent=-1, names=["unknown.operation"])
    assert compiled(tmp_path) == []


def test_operations_of_a_script_are_not_given_away():
    class Mine:
        class function:
            __module__, __name__ = "__main__", "forward"

    assert not precompile._is_importable(Mine)
    from ampnet.runtime.update import update
    assert precompile._is_importable(update)

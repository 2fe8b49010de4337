"""Checkpoints: parameters, optimizer state and position, in one safetensors file that is replaced whole or not at all.

A position is the number of finished epochs and of the instances done in the next one, with what those counted (`Epoch`).
Nothing else is needed: when one is made no gradient waits to be applied, and replicas are equal.
"""

import errno
import json
import math
import os
from pathlib import Path

import numpy as np

from ..errors import CheckpointError

FORMAT = "ampnet-checkpoint-1"
RUN_FILES = ("config.toml", "metrics.jsonl", "checkpoint.safetensors", "best.safetensors", "trace.json")


def write_atomically(path, data):
    """Write bytes to a temporary file beside `path`, flush to disk, rename over it; raises CheckpointError.

    Whatever stops it, Ctrl-C included, leaves the file as it was and no temporary one; only a kill leaves that.
    """
    path = Path(path)
    temporary = _temporary(path)
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _flush_folder(path.parent)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise CheckpointError(f"{path}: cannot be written: {error.strerror or error}") from error
        raise


def append(path, data):
    """Append bytes to a file and flush it to disk, all or none of them; raises CheckpointError."""
    path = Path(path)
    size = path.stat().st_size if path.exists() else 0
    try:
        with open(path, "ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if path.is_file():   # a device is none
            os.truncate(path, size)
        raise CheckpointError(f"{path}: cannot be written: {error.strerror or error}") from error


def _temporary(path):
    return path.with_name(path.name + ".part")


def _flush_folder(folder):
    """Bring a rename to disk; file systems that cannot do this for a folder do it by themselves."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def remove_unfinished(folder):
    """Remove what a killed run was writing."""
    for name in RUN_FILES:
        _temporary(Path(folder) / name).unlink(missing_ok=True)


def save(path, machine, position):
    """Write a checkpoint. position: dict of JSON values, `epoch` among them."""
    from safetensors.numpy import save as to_bytes
    arrays = {}
    for name, parameter in machine.graph.named_parameters().items():
        arrays[name] = parameter.value
        for i, state in enumerate(parameter.states):
            arrays[f"optimizer.{i}.{name}"] = state
    versions = {n.name: int(spec.record["version"][0])
                for n, spec in zip(machine.graph.nodes, machine.engine.nodes, strict=True) if n.parameters and n.wired}
    # One entry: safetensors writes several in an order that differs from call to call.
    metadata = {FORMAT: json.dumps({"position": position, "updates": versions})}
    write_atomically(path, to_bytes(arrays, metadata=metadata))


def read(path):
    """(arrays, position, updates a node); raises CheckpointError."""
    from safetensors import SafetensorError, safe_open
    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    if FORMAT not in metadata:
        raise CheckpointError(f"{path}: is no checkpoint of this program (it lacks the entry '{FORMAT}')")
    try:
        return arrays, *_checked(json.loads(metadata[FORMAT]))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: damaged position: {error}") from error


def _checked(saved):
    """Position and updates of a checkpoint, which may come from anywhere."""
    position, updates = saved["position"], saved["updates"]
    for name, count in {"epoch": position["epoch"], **updates}.items():
        if type(count) is not int or not 0 <= count < 2**62:
            raise ValueError(f"'{name}' is {count!r}")
    best = position["best"]
    if best is not None and (type(best) not in (int, float) or not abs(best) < math.inf):
        raise ValueError(f"'best' is {best!r}")
    return position, updates


def load_parameters(path, graph):
    """Only the parameters, for evaluation. Returns the position."""
    arrays, position, _ = read(path)
    graph.load_parameters({k: v for k, v in arrays.items() if not k.startswith("optimizer.")}, str(path))
    return position


def restore(path, machine):
    """Parameters, optimizer state and update counts into a machine; returns the position. Nothing changes if it is refused."""
    arrays, position, updates = read(path)
    values = {name: arrays.pop(name) for name in list(arrays) if not name.startswith("optimizer.")}
    machine.graph.check_parameters(values, str(path))
    states = []
    for name, parameter in machine.graph.named_parameters().items():
        for i, state in enumerate(parameter.states):
            saved = arrays.pop(f"optimizer.{i}.{name}", None)
            if saved is None or saved.shape != state.shape or saved.dtype != state.dtype or not np.isfinite(saved).all():
                raise CheckpointError(f"{path}: optimizer state {i} of '{name}' is missing, misshapen or not finite float32")
            states.append((state, saved))
    for name in arrays:
        raise CheckpointError(f"{path}: unknown tensor '{name}': was it written with another optimizer?")
    learners = [(n, s) for n, s in zip(machine.graph.nodes, machine.engine.nodes, strict=True) if n.parameters and n.wired]
    for node, _ in learners:
        if node.name not in updates:
            raise CheckpointError(f"{path}: the update count of '{node.name}' is missing")
    machine.graph.load_parameters(values, str(path))
    for state, saved in states:
        state[...] = saved
    for node, spec in learners:
        spec.record["version"] = updates[node.name]
    machine.spread_replicas()
    return position

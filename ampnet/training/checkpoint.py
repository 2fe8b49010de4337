"""Checkpoints: parameters, optimizer state and position, in one safetensors file that is replaced whole or not at all.

The order of the data depends on (seed, epoch) alone, so the position is the number of finished epochs.
"""

import json
import os
from pathlib import Path

import numpy as np

from ..errors import CheckpointError

FORMAT = "ampnet-checkpoint-1"


def write_atomically(path, data):
    """Write bytes to a temporary file beside `path`, flush to disk, rename over it."""
    path = Path(path)
    temporary = path.with_name(path.name + ".part")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise CheckpointError(f"{path}: cannot be written: {error.strerror or error}") from error


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
        saved = json.loads(metadata[FORMAT])
        return arrays, saved["position"], saved["updates"]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: damaged position: {error}") from error


def load_parameters(path, graph):
    """Only the parameters, for evaluation. Returns the position."""
    arrays, position, _ = read(path)
    graph.load_parameters({k: v for k, v in arrays.items() if not k.startswith("optimizer.")}, str(path))
    return position


def restore(path, machine):
    """Parameters, optimizer state and update counts into a machine; returns the position."""
    arrays, position, updates = read(path)
    load = {k: v for k, v in arrays.items() if not k.startswith("optimizer.")}
    machine.graph.load_parameters(load, str(path))
    for name, parameter in machine.graph.named_parameters().items():
        for i, state in enumerate(parameter.states):
            saved = arrays.pop(f"optimizer.{i}.{name}", None)
            if saved is None or saved.shape != state.shape or not np.isfinite(saved).all():
                raise CheckpointError(f"{path}: optimizer state {i} of '{name}' is missing, misshapen or not finite")
            state[...] = saved
    for name in arrays:
        if name.startswith("optimizer."):
            raise CheckpointError(f"{path}: unknown tensor '{name}': was it written with another optimizer?")
    for node, spec in zip(machine.graph.nodes, machine.engine.nodes, strict=True):
        if node.parameters and node.wired:
            if node.name not in updates:
                raise CheckpointError(f"{path}: the update count of '{node.name}' is missing")
            spec.record["version"] = updates[node.name]
    machine.spread_replicas()
    return position

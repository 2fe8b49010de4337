"""Checkpoints of a PyTorch run: parameters, optimizer state and position in one safetensors file, without pickle."""

import json

import torch
from safetensors.torch import save as to_bytes

from ..errors import CheckpointError
from ..training.checkpoint import FORMAT, read, write_atomically

NAME = "torch.safetensors"


def save(path, model, optimizers, position):
    """position: a dict of JSON values, `epoch`, `best` and `run` among them; `run` is what a resumed run must agree in."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    for number, optimizer in enumerate(optimizers):
        for index, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{index}.{name}": value for name, value in state.items() if value is not None}
    write_atomically(path, to_bytes(tensors, {FORMAT: json.dumps({"position": position, "updates": {}})}))


def restore(path, model, optimizers, run):
    """Take up a checkpoint and return its position; CheckpointError where it is damaged, or of another run."""
    arrays, position, _ = read(path)
    if position.get("run") != run:
        raise CheckpointError(f"{path}: is of another run: {_difference(position.get('run'), run)}")
    values, states = {}, [{} for _ in optimizers]
    try:
        for name, array in arrays.items():
            kind, rest = name.split(".", 1)
            if kind == "model":
                values[rest] = torch.from_numpy(array)
            else:
                number, index, what = rest.split(".")
                states[int(number)].setdefault(int(index), {})[what] = torch.from_numpy(array)
        model.load_state_dict(values)
        for optimizer, state in zip(optimizers, states, strict=True):
            optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    except (IndexError, KeyError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{path}: does not fit the model: {' '.join(str(error).split())}") from error
    return position


def _difference(old, new):
    if not isinstance(old, dict):
        return "it does not say of which"
    name = next(name for name in {**old, **new} if old.get(name) != new.get(name))
    return f"its {name} is {old.get(name)!r}, not {new.get(name)!r}"

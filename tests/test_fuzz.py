"""Files from anywhere: damaged at random, each one loads or is refused by one clear line; nothing else ever happens."""

import struct
import time
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampnet.errors import AmpnetError
from ampnet.experiments import TASKS
from ampnet.graphs import Machine, rnn
from ampnet.training import Trainer, checkpoint, orderfile
from ampnet.training.config import read_toml
from tests.file_kinds import CONFIG, DATA_KINDS, Kind, whole
from tests.mutations import damaged, memory_limit

MEGABYTES = 256      # more than any of these files of a few kilobytes needs
SECONDS = 20         # the same, on a machine that does other work too
MANY = 10_000
slow = [pytest.mark.slow, pytest.mark.timeout(3600)]


def read_or_refuse(kind, raw, folder):
    """Read a file with this content; whatever error comes must be ours, of one line and not too long. Returns it."""
    (folder / kind.name).write_bytes(raw)
    started = time.perf_counter()
    try:
        with memory_limit(MEGABYTES << 20):
            return kind.load(folder)
    except AmpnetError as error:
        text = str(error)
        assert text.strip() and "\n" not in text and len(text) < 1000, text
        return error
    finally:
        assert time.perf_counter() - started < SECONDS


def check_damaged(kind, folder, examples):
    """Damage the file as it lies there, or one of its parts with everything around it made good again."""
    raw = kind.lay_out(folder)
    assert not isinstance(read_or_refuse(kind, raw, folder), AmpnetError)
    refused = 0

    @settings(max_examples=examples, deadline=None, database=None, derandomize=examples <= 200,
              suppress_health_check=list(HealthCheck))
    @given(st.data())
    def any_damage(data):
        nonlocal refused
        if kind.pack is whole or data.draw(st.booleans(), "outside"):
            broken = data.draw(damaged(raw), "file")
        else:
            name = data.draw(st.sampled_from(sorted(kind.parts)), "part")
            broken = kind.pack(kind.parts | {name: data.draw(damaged(kind.parts[name]), "content")})
        refused += isinstance(read_or_refuse(kind, broken, folder), AmpnetError)

    any_damage()
    assert refused > examples // 10   # the changes are such that they matter


def share(name):
    """Of MANY, for one kind of a format: its name begins with the format's."""
    return MANY // sum(other.split()[0] == name.split()[0] for other in DATA_KINDS)


@pytest.mark.parametrize("name, examples", [(name, 100) for name in DATA_KINDS]
                         + [pytest.param(name, share(name), marks=slow) for name in DATA_KINDS])
def test_a_damaged_data_file_loads_or_is_refused(name, examples, tmp_path):
    if name in ("qm9 csv", "qm9 csv.gz", "qm9 valid", "qm9 xyz", "qm9 tar"):
        pytest.importorskip("rdkit")
    check_damaged(DATA_KINDS[name], tmp_path, examples)


@pytest.fixture(scope="module")
def machine():
    machine = Machine(rnn(embedding=3, hidden=3).initialise(0))
    machine.optimizer("sgd")
    return machine


def checkpoint_kind(machine, folder):
    """The header (JSON) and the tensors, as parts; the length before the header is made to fit."""
    path = folder / "good.safetensors"
    checkpoint.save(path, machine, {"epoch": 1, "best": 0.5, "seed": 0})
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]

    def pack(parts):
        return struct.pack("<Q", len(parts["header"])) + whole(parts)

    def load(folder):
        return checkpoint.restore(folder / "damaged.safetensors", machine)

    return Kind("damaged.safetensors", {"header": raw[8:8 + length], "tensors": raw[8 + length:]}, pack, load)


@pytest.mark.parametrize("examples", [200, pytest.param(MANY, marks=slow)])
def test_a_damaged_checkpoint_restores_or_is_refused(machine, examples, tmp_path):
    check_damaged(checkpoint_kind(machine, tmp_path), tmp_path, examples)
    assert all(np.isfinite(value).all() for value in machine.graph.parameters.values())


def record_kind(folder, lists):
    """A recorded epoch; its two frames, what they hold uncompressed, are the parts."""
    def make():
        return Trainer(rnn(embedding=2, hidden=2), workers=2, max_active_keys=4)

    path, few = folder / "good.order", lists.train.take(6)
    make().fit(few, epochs=1, record=path)
    frames = []
    with open(path, "rb") as file:
        file.seek(len(orderfile.MAGIC))
        while head := file.read(orderfile.FRAME.size):
            frames.append(zlib.decompress(file.read(orderfile.FRAME.unpack(head)[0])))

    def pack(parts):
        packed = [(zlib.compress(raw), len(raw)) for raw in parts.values()]
        return orderfile.MAGIC + b"".join(orderfile.FRAME.pack(len(z), size, zlib.crc32(z)) + z for z, size in packed)

    def load(folder):
        return make().fit(few, epochs=1, replay=folder / "damaged.order")

    return Kind("damaged.order", {f"frame {i}": raw for i, raw in enumerate(frames)}, pack, load)


@pytest.mark.parametrize("examples", [60, pytest.param(MANY, marks=slow)])
def test_a_damaged_record_is_repeated_or_refused(lists, examples, tmp_path):
    check_damaged(record_kind(tmp_path, lists), tmp_path, examples)


def resolve(folder):
    """The configuration in `mine.toml`, after a way through a file and back."""
    task, path, again = TASKS["list-reduction"], folder / "mine.toml", folder / "again.toml"
    config = task.resolve((str(path), read_toml(path)))
    again.write_text(config.to_toml(), encoding="utf-8")
    assert task.resolve((str(again), read_toml(again))) == config
    return config


@pytest.mark.parametrize("examples", [200, pytest.param(MANY, marks=slow)])
def test_a_damaged_config_resolves_or_is_refused(examples, tmp_path):
    check_damaged(Kind("mine.toml", {"": CONFIG.encode()}, whole, resolve), tmp_path, examples)

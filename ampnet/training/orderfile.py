"""Files of recorded orders: `record` writes what each worker did when, `replay` does it again, bit for bit.

    ampnet-order-1\\n
    frame of a header        JSON: versions, settings, epochs, placement, nodes
    frame a run              JSON: what the run was of, and how long the logs are; then a log for each worker

A run is a stretch of an epoch or an evaluation. A frame is compressed, and has its lengths and a checksum before it. What is
read is checked: a file from anywhere is repeated or refused.
"""

import json
import os
import platform
import struct
import zlib
from pathlib import Path

import numba
import numpy as np

from .. import __version__
from ..errors import RecordError
from .checkpoint import append

MAGIC = b"ampnet-order-1\n"
FRAME = struct.Struct("<QQI")   # compressed bytes, bytes, CRC-32 of the compressed ones
SMALL = struct.Struct("<I")     # bytes of the JSON
HEADER = {"versions": str, "settings": dict, "epochs": int, "placement": dict, "nodes": dict}
DIFFERENCES = {
    "training": "is an evaluation where training was recorded, or the other way round",
    "instances": "has another number of instances", "data": "has other data", "order": "has another order of the data",
    "before": "begins with other parameters: was another seed or checkpoint recorded?"}


class Unrecorded:
    """Runs are just run."""

    def run(self, machine, instances, order=None, row_index=None, **options):
        return machine.run(instances, order, row_index, **options)

    def close(self):
        pass


class Recorder:
    """Writes a new file, run by run; what is in it is whole after each. Raises RecordError, CheckpointError."""

    def __init__(self, path, trainer, epochs):
        self.path, self._data = Path(path), _Fingerprints()
        check_new(path)
        append(path, MAGIC + _frame(_header(trainer, epochs), []))

    def run(self, machine, instances, order=None, row_index=None, **options):
        run_of = self._data.describe(machine, instances, order, row_index, options)
        run = machine.run(instances, order, row_index, record=True, **options)
        append(self.path, _frame(run_of | {"after": fingerprint(machine)}, run.order))
        return run

    def close(self):
        pass


class Replayer:
    """Repeats what a file holds, on the placement that was recorded. Raises RecordError where it does not fit."""

    def __init__(self, path, trainer, epochs):
        self.path, self._data, self._runs = Path(path), _Fingerprints(), 0
        try:
            self._file = open(self.path, "rb")  # noqa: SIM115
        except OSError as error:
            raise RecordError(f"{path}: cannot be read: {error.strerror or error}") from error
        header = _read_header(self.path, self._file)
        _compare(self.path, header, _header(trainer, epochs))
        self.placement, self._versions = header["placement"], header["versions"]

    def run(self, machine, instances, order=None, row_index=None, **options):
        self._runs += 1
        frame = _read_frame(self.path, self._file, f"run {self._runs}")
        if frame is None:
            raise RecordError(f"{self.path}: the record ends after {self._runs - 1} runs (epochs and evaluations)")
        recorded, logs = frame
        run_of = self._data.describe(machine, instances, order, row_index, options)
        for name, value in run_of.items():
            if recorded.get(name) != value:
                raise RecordError(f"{self.path}: run {self._runs} does not fit: this one {DIFFERENCES[name]}")
        run = machine.run(instances, order, row_index, repeat=logs, **options)
        if fingerprint(machine) != recorded.get("after"):
            raise RecordError(f"{self.path}: run {self._runs} ended with other parameters than the recorded one; it was made "
                              f"with {self._versions}, this is {_versions()}")
        return run

    def close(self):
        self._file.close()


def recorded_placement(path):
    """Node name -> worker of a recorded run. Raises RecordError."""
    try:
        with open(path, "rb") as file:
            return _read_header(path, file)["placement"]
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror or error}") from error


def check_new(path):
    """A record is never written over another file."""
    if Path(path).exists():
        raise RecordError(f"{path}: exists already; a record goes to a new file")
    if not Path(path).absolute().parent.is_dir():
        raise RecordError(f"{path}: cannot be written: there is no such folder")


def fingerprint(machine):
    """CRC-32 of all parameters, those of replicas too, and of the optimizer's state."""
    crc = 0
    for node in machine.graph.nodes:
        for parameter in node.parameters.values():
            for array in (parameter.value, *parameter.states):
                crc = zlib.crc32(array, crc)
    return crc


class _Fingerprints:
    """Says what a run is of. The checksum of a data set is computed once."""

    def __init__(self):
        self._known = []

    def describe(self, machine, instances, order, row_index, options):
        orders = 0
        for array in (order, row_index):
            orders = zlib.crc32(b"" if array is None else np.ascontiguousarray(array), orders)
        return {"training": bool(options.get("training", True)), "instances": len(instances if order is None else order),
                "data": self._of_data(instances), "order": orders, "before": fingerprint(machine)}

    def _of_data(self, instances):
        for known, crc in self._known:
            if known is instances:
                return crc
        crc = 0
        for name in sorted(instances.columns):
            column = instances.columns[name]
            for part in (name.encode(), np.ascontiguousarray(column.values), np.ascontiguousarray(column.offsets)):
                crc = zlib.crc32(part, crc)
        self._known.append((instances, crc))
        return crc


def _versions():
    return f"ampnet {__version__}, numba {numba.__version__}, numpy {np.__version__}, {platform.machine()}"


def _header(trainer, epochs):
    settings = trainer.settings.as_dict()
    del settings["trace"]
    nodes = {node.name: f"{node.kind} of {[source.width for source in node.inputs]}, from "
                        f"{[source.node.name for source in node.inputs]}" for node in trainer.model.nodes}
    return {"versions": _versions(), "settings": settings, "epochs": epochs, "placement": trainer.placement, "nodes": nodes}


def _compare(path, recorded, here):
    """What was recorded must be what is to be repeated; a placement that was not given may be any."""
    for name, value in here["settings"].items():
        was = recorded["settings"].get(name)
        if was != value:
            raise RecordError(f"{path}: recorded with {name} = {was!r}, this run has {value!r}")
    if recorded["epochs"] != here["epochs"]:
        raise RecordError(f"{path}: recorded with epochs = {recorded['epochs']}, this run has {here['epochs']}")
    was = recorded["nodes"]
    for name in {**here["nodes"], **was}:
        if was.get(name) != here["nodes"].get(name):
            raise RecordError(f"{path}: recorded with a node '{name}' that was {was.get(name)}; here it is "
                              f"{here['nodes'].get(name)}")
    if here["placement"] not in (None, recorded["placement"]):
        raise RecordError(f"{path}: recorded with another placement: {recorded['placement']}")


def _read_header(path, file):
    if file.read(len(MAGIC)) != MAGIC:
        raise RecordError(f"{path}: is no record of this program (it does not begin with {MAGIC.decode().strip()!r})")
    frame = _read_frame(path, file, "its header")
    if frame is None:
        raise RecordError(f"{path}: its header is cut off")
    header, _ = frame
    for name, kind in HEADER.items():
        if not isinstance(header.get(name), kind):
            raise RecordError(f"{path}: damaged: its header has {name} = {header.get(name)!r}")
    return header


def _read_frame(path, file, what):
    """(JSON object, logs) of the next frame; None at the end of the file, or where the last frame was cut off."""
    before = file.read(FRAME.size)
    left = os.fstat(file.fileno()).st_size - file.tell()
    if len(before) < FRAME.size or FRAME.unpack(before)[0] > left:
        return None
    packed, size, checksum = FRAME.unpack(before)
    try:
        return _unpack(file.read(packed), size, checksum)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, MemoryError,
            struct.error, zlib.error) as error:
        raise RecordError(f"{path}: damaged at {what}: {str(error) or type(error).__name__}") from error


def _frame(description, logs):
    text = json.dumps(description | {"logs": [len(log) for log in logs]}).encode()
    raw = b"".join([SMALL.pack(len(text)), text, *(log.tobytes() for log in logs)])
    packed = zlib.compress(raw, 6)
    return FRAME.pack(len(packed), len(raw), zlib.crc32(packed)) + packed


def _unpack(packed, size, checksum):
    if zlib.crc32(packed) != checksum:
        raise ValueError("its checksum is wrong")
    unpacker = zlib.decompressobj()
    raw = unpacker.decompress(packed, size) if size else b""
    if len(raw) != size or unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError("it is longer or shorter than it says")
    text = SMALL.unpack_from(raw)[0]
    at = SMALL.size + text
    description = json.loads(raw[SMALL.size:at])
    lengths = description.pop("logs")
    if not all(type(n) is int and n >= 0 for n in lengths) or at + sum(lengths) != size:
        raise ValueError("its logs are longer or shorter than it says")
    logs = []
    for length in lengths:
        logs.append(np.frombuffer(raw, np.uint8, length, at))
        at += length
    return description, logs

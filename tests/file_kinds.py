"""Small valid files of each kind that is read, how to take them apart and put them together again, and who reads them."""

import bz2
import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ampnet.datasets import babi, glove, mnist, qm9, qm9_files, sentiment
from tests.datasets import test_babi, test_qm9

TREES = "(3 (2 (2 The) (2 film)) (4 great))\n(1 (2 no) (0 (1 bad) (2 -LRB-)))\n(2 word)\n"
IMAGES = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 28, 28) + bytes(range(196)) * 8
LABELS = bytes([0, 0, 8, 1]) + struct.pack(">I", 2) + bytes([7, 9])
VECTORS = "the 0.5 -1 2e-3\nfilm 1 2 3\n, 4 5 6\n"
CONFIG = ('task = "list-reduction"\nepochs = 2\ntarget = 0.97\nhidden = 16\nembedding = 8\ncell = "relu"\nlr = 1e-3\nseed = 3\n'
          'coalesce = true\noptimizer = "adam"\nplacement = {cell = 1, "pick tokens" = 0}\n[versions]\nnumpy = "2.0"\n')


class Kind(NamedTuple):
    """parts: of a file that is good; pack: parts -> its bytes; name: of the file; beside: files that lie there too,
    name -> bytes; load: reads it all, from the folder."""

    name: str
    parts: dict[str, bytes]
    pack: Callable[[dict[str, bytes]], bytes]
    load: Callable[[Path], object]
    beside: dict[str, bytes] = {}

    def lay_out(self, folder):
        """Write the file as it should be, and those beside it; returns its bytes."""
        raw = self.pack(self.parts)
        for name, content in (self.beside | {self.name: raw}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return raw


def whole(parts):
    return b"".join(parts.values())


def gzipped(parts):
    return gzip.compress(whole(parts), 1, mtime=0)


def zipped(method=zipfile.ZIP_DEFLATED):
    def pack(parts):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", method) as archive:
            for name, content in parts.items():
                archive.writestr(name, content)
        return buffer.getvalue()
    return pack


def tarred(compress):
    def pack(parts):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name, content in parts.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        return compress(buffer.getvalue())
    return pack


def tar_bytes(compress):
    """For a part that is a whole tar archive already."""
    return lambda parts: compress(whole(parts))


def npy(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=True)
    return buffer.getvalue()


def npys(arrays):
    return {f"{name}.npy": npy(array) for name, array in arrays.items()}


def _gz(raw):
    return gzip.compress(raw, 1, mtime=0)


def _bz2(raw):
    return bz2.compress(raw, 1)


def _idx(name, parts, pack=whole):
    files = {"train-images-idx3-ubyte": IMAGES, "train-labels-idx1-ubyte": LABELS,
             "t10k-images-idx3-ubyte": IMAGES, "t10k-labels-idx1-ubyte": LABELS}
    files.pop(name.removesuffix(".gz"))
    return Kind(name, parts, pack, mnist.load, files)


def _trees(name, pack):
    beside = {"dev.txt": TREES.encode(), "test.txt": TREES.encode()}
    return Kind(name, {"": TREES.encode()}, pack, sentiment.load, beside)


def _babi():
    files = {name: text.encode() for name, text in test_babi.small_fold().items()}
    graphs = "symbolic/fold1/train/15_graphs.txt"

    def load(folder):
        return babi.load(folder, graphs=2, nodes=9, fine=True)

    rest = {name: raw for name, raw in files.items() if name != graphs}
    return {
        "babi graphs": Kind(graphs, {"": files[graphs]}, whole, load, rest),
        "babi archive": Kind(babi.ARCHIVE, files, tarred(_gz), load),
        "babi tar": Kind(babi.ARCHIVE, {"": tarred(bytes)(files)}, tar_bytes(_gz), load),
    }


def _qm9():
    table = (b"index,smiles,n_atoms,A,mu\r\n1,C,5,1.5,0.0\r\n3,O,3,1.5,1.8511\r\n5,C#N,3,1.5,2.8937\r\n6,C=O,4,1.5,2.1089\r\n"
             b"9,c1cc[nH]c1,10,1.5,1.7\r\n")
    valid = {"valid_idx.txt": test_qm9.IDS_OF_VALID.encode()}
    texts = {f"dsgdb9nsd_{i:06}.xyz": test_qm9.xyz(*m).encode() for i, m in enumerate(test_qm9.MOLECULES)}
    listing = {qm9_files.UNCHARACTERIZED: b"  index\n 77 some\n"}
    arrays = npys(test_qm9.arrays())

    def load(folder):
        return qm9.load(folder, fine=True)

    return {
        "qm9 npz": Kind(qm9_files.GRAPHS, arrays, zipped(), load),
        "qm9 npz stored": Kind(qm9_files.GRAPHS, arrays, zipped(zipfile.ZIP_STORED), load),
        "qm9 csv": Kind("qm9.csv", {"": table}, whole, load, valid),
        "qm9 csv.gz": Kind("qm9.csv.gz", {"": table}, gzipped, load, valid),
        "qm9 valid": Kind("valid_idx.txt", {"": valid["valid_idx.txt"]}, whole, load, {"qm9.csv": table}),
        "qm9 xyz": Kind(qm9_files.ARCHIVE, texts, tarred(_bz2), load, valid | listing),
        "qm9 tar": Kind(qm9_files.ARCHIVE, {"": tarred(bytes)(texts)}, tar_bytes(_bz2), load, valid | listing),
    }


def _glove():
    words = b"the\nfilm\n,\n"
    arrays = npys({"vectors": np.arange(9, dtype=np.float32).reshape(3, 3)})

    def reader(name):
        return lambda folder: glove.read(folder / name)

    beside = {"a_words.txt.gz": _gz(words)}
    return {
        "glove npz": Kind("a.npz", arrays, zipped(), reader("a.npz"), beside),
        "glove npz stored": Kind("a.npz", arrays, zipped(zipfile.ZIP_STORED), reader("a.npz"), beside),
        "glove words": Kind("a_words.txt.gz", {"": words}, gzipped, reader("a.npz"), {"a.npz": zipped()(arrays)}),
        "glove text": Kind("a.txt", {"": VECTORS.encode()}, whole, reader("a.txt")),
        "glove text gz": Kind("a.txt.gz", {"": VECTORS.encode()}, gzipped, reader("a.txt.gz")),
    }


DATA_KINDS = {
    "idx images": _idx("train-images-idx3-ubyte", {"header": IMAGES[:16], "pixels": IMAGES[16:]}),
    "idx labels": _idx("train-labels-idx1-ubyte", {"": LABELS}),
    "idx labels gz": _idx("t10k-labels-idx1-ubyte.gz", {"": LABELS}, gzipped),
    "trees": _trees("train.txt", whole),
    "trees gz": _trees("train.txt.gz", gzipped),
    **_babi(), **_qm9(), **_glove(),
}

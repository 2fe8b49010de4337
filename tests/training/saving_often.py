"""A small training that makes a checkpoint after every three instances, to be killed: `python saving_often.py OUT EPOCHS`."""

import sys
from pathlib import Path

from ampnet import Trainer
from ampnet.datasets import list_reduction
from ampnet.graphs import rnn


def train(out, epochs):
    """Go on with the run in `out`, or begin it. One in flight would never be stale; three are."""
    trainer = Trainer(rnn(embedding=8, hidden=8), max_active_keys=3, min_update_frequency=5, lr=0.01, seed=5,
                      checkpoint_every=3)
    resume = (Path(out) / "checkpoint.safetensors").exists()
    return trainer.fit(list_reduction.load(0, 40, 10), epochs, out=out, resume=resume)


if __name__ == "__main__":
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    train(sys.argv[1], int(sys.argv[2]))

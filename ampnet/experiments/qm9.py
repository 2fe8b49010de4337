"""Dipole moments of QM9's molecules with a gated graph network and a gated sum readout."""

from ..training.config import whole
from .task import Task


def load_data(folder, config):
    from ..datasets import catalog, qm9
    return qm9.load(catalog.locate("qm9", folder))


def build(options, meta):
    from ..graphs import ggnn
    return ggnn(meta["annotation"], meta["edge_types"], options["hidden"], options["steps"], "regression", meta["std"])


def metrics(meta):
    """Beside the mean absolute error in debye the error ratio: that error in standard deviations, over 0.0665."""
    def compute(predictions, instances):
        difference = predictions["loss"][:, 0].astype(float) - instances["target"].values[:, 0]
        return {"error_ratio": float(abs(difference).mean() / meta["ratio_scale"])}
    return compute


TASK = Task("qm9", {"hidden": whole, "steps": whole}, load_data, build, metrics)

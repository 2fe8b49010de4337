"""What a metrics.jsonl says of what was computed, without what was measured of the process."""

from ampnet.training.metrics import read_json_lines

MEASURED = {"seconds", "train_seconds", "instances_per_second", "valid_instances_per_second", "messages_per_second", "busy",
            "flops_per_second", "peak_memory"}


def computed(path):
    """Its rows."""
    return [{name: value for name, value in row.items() if name not in MEASURED} for row in read_json_lines(path)]

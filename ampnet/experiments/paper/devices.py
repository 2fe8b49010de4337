"""What a network of 1-TFLOPS devices would do: an estimate from counted operations and bytes, as the paper makes it for QM9.

Each node with parameters is a device of its own. The device with the most operations an instance is the bottleneck, and sets
how many instances a second go through; that times the bytes of an instance is what a link between two nodes must carry.
Counted are the operations of `Node.cost` and `backward_cost` for the rows a short run sends through each node, and payloads of
float32. Not counted: updates, message headers, nodes without parameters.
"""

from dataclasses import dataclass, field

from ...errors import DataError
from .. import find
from . import gantt

NAME = "devices"
ABOUT = "Estimate: instances/s and Gb/s of a network of 1-TFLOPS devices, one for each node with parameters."
FLOPS = 1e12                 # a second, of a device
FLOAT_BYTES, BITS = 4, 8
PAPER_HIDDEN, PAPER_ATOMS, PAPER_STEPS = 200, 30, 4
SAMPLE, QUICK_SAMPLE = 2000, 100   # examples counted
CASE_COLUMNS = ("case", "instance", "devices", "MFLOP an instance", "bottleneck", "its MFLOP", "instances/s",
                "mean load of a device", "busiest link", "KB an instance and way", "Gb/s and way")
DEVICE_COLUMNS = ("case", "node", "rows an instance", "MFLOP forward", "MFLOP backward", "load", "Gb/s and way of its links")


@dataclass(frozen=True)
class Case:
    """options: of the task's model beside its defaults; form: of a gated graph network; instance: what one is."""

    name: str
    task: str
    instance: str
    options: dict = field(default_factory=dict)
    form: str = "fused"


PAPER_CASE = Case(f"qm9, hidden {PAPER_HIDDEN}", "qm9", "a molecule", {"hidden": PAPER_HIDDEN})
FINE_CASE = Case(f"{PAPER_CASE.name}, a message an edge", "qm9", "a molecule", PAPER_CASE.options, "fine")
CASES = (Case("mnist", "mnist", "100 images"), Case("list-reduction", "list-reduction", "a list"),
         Case("sentiment", "sentiment", "a tree"), Case("babi15", "babi15", "a question"), Case("qm9", "qm9", "a molecule"),
         PAPER_CASE, FINE_CASE)


@dataclass(frozen=True)
class Link:
    """A wire between a device and a neighbour; bytes of an instance each way."""

    name: str
    forward: float
    backward: float

    @property
    def busier_way(self):
        return max(self.forward, self.backward)


@dataclass(frozen=True)
class Device:
    """rows: an instance; forward, backward: floating-point operations an instance."""

    name: str
    rows: float
    forward: float
    backward: float
    links: tuple

    @property
    def flops(self):
        return self.forward + self.backward


@dataclass(frozen=True)
class Estimate:
    case: Case
    devices: list

    @property
    def bottleneck(self):
        return max(self.devices, key=lambda device: device.flops)

    @property
    def rate(self):
        """Instances a second."""
        return FLOPS / self.bottleneck.flops

    @property
    def busiest(self):
        return max((link for device in self.devices for link in device.links), key=lambda link: link.busier_way)

    def gigabits(self, link):
        """A second, on the busier way of a link."""
        return link.busier_way * BITS * self.rate / 1e9

    def load(self, device):
        """Share of the time a device computes."""
        return device.flops / self.bottleneck.flops

    def device(self, name):
        return next(device for device in self.devices if device.name == name)


def count(case, graph, instances, order):
    """The `Estimate` of a graph, from one pass over `order`, numbers of `Instances`, without updates.

    Rows are those that come back: one for each row of a node's output, where forward two inputs bring one each.
    """
    from ...graphs import Machine
    from ...training.blas import single_threaded_blas
    machine = Machine(graph)
    machine.optimizer()
    with single_threaded_blas():
        rows = machine.run(instances, order, max_active_keys=16).rows[0] / len(order)
    machine.forget()
    return Estimate(case, [_device(node, float(rows[node.number])) for node in graph.nodes if node.parameters])


def _device(node, rows):
    carriers = node.graph.carriers()
    links = [_link(f"{port.node.name} - {node.name}", rows, port.width, port.node in carriers) for port in node.inputs]
    links += [_link(f"{node.name} - {port.target[0].name}", rows, port.width, True) for port in node.outputs]
    return Device(node.name, rows, rows * node.cost(), rows * node.backward_cost(), tuple(links))


def _link(name, rows, width, answered):
    """answered: whether a gradient comes back, and not only the news that the message was dealt with."""
    size = rows * width * FLOAT_BYTES
    return Link(name, size, size if answered else 0.0)


def reproduce(lab):
    """Cases whose data are not there are left out."""
    estimates, data = [], {}
    for case in CASES:
        try:
            if case.task not in data:
                data[case.task] = _load(case.task, lab.data)
        except DataError as error:
            lab.tell(f"{NAME}: {case.name} is left out: {error}")
            continue
        lab.tell(f"{NAME}: {case.name}")
        train = data[case.task].train
        estimates.append(count(case, _model(case, data[case.task].meta), train,
                               spread(train, QUICK_SAMPLE if lab.quick else SAMPLE)))
    lab.write_table(NAME, CASE_COLUMNS, [_case_row(estimate) for estimate in estimates], caption(estimates))
    lab.write_table(f"{NAME}_nodes", DEVICE_COLUMNS, [_device_row(e, device) for e in estimates for device in e.devices],
                    "The devices one by one; load is the share of its time that a device computes when the bottleneck always "
                    "does.", inline=False)
    if estimates:
        lab.save(picture(estimates), NAME)


def _load(task, folder):
    from ...datasets import catalog, qm9
    if task == "qm9":
        return qm9.load(catalog.locate(task, folder), fine=True)
    return find(task).load_data(folder, find(task).resolve())


def _model(case, meta):
    from ...graphs import ggnn
    task = find(case.task)
    options = task.resolve((None, case.options)).model
    if case.form == "fine":
        return ggnn(meta["annotation"], meta["edge_types"], options["hidden"], options["steps"], form="fine")
    return task.build(options, meta)


def spread(instances, examples):
    """Numbers of instances, evenly over all, that have about so many examples: QM9 has its small molecules first."""
    import numpy as np
    wanted = min(len(instances), max(1, examples * len(instances) // instances.examples))
    return np.linspace(0, len(instances) - 1, wanted).astype(int)


def _case_row(e):
    worst, link, total = e.bottleneck, e.busiest, sum(device.flops for device in e.devices)
    return (e.case.name, e.case.instance, len(e.devices), total / 1e6, worst.name, worst.flops / 1e6, e.rate,
            total / len(e.devices) / worst.flops, link.name, link.busier_way / 1e3, e.gigabits(link))


def _device_row(e, device):
    links = ", ".join(f"{link.name}: {e.gigabits(link):.3g}" for link in device.links)
    return e.case.name, device.name, device.rows, device.forward / 1e6, device.backward / 1e6, e.load(device), links


def paper_estimate():
    """(FLOP a molecule on the bottleneck, molecules a second, Gb/s of an edge type) as the paper's arithmetic has them.

    A GRU takes 12 H^2 operations forward and 36 with backward, an atom and step. The last number is N T vectors of H float32 a
    molecule, shared evenly by four edge types: what its 1.1 Gb/s come to.
    """
    flops = 36 * PAPER_HIDDEN**2 * PAPER_ATOMS * PAPER_STEPS
    rate = FLOPS / flops
    return flops, rate, PAPER_ATOMS * PAPER_STEPS * PAPER_HIDDEN * FLOAT_BYTES * BITS * rate / 4 / 1e9


def caption(estimates):
    text = ("Estimates for devices of 1 TFLOPS, one for each node with parameters, from counted operations and payload bytes; "
            "updates, message headers (64 bytes) and nodes without parameters are not counted. A link is full duplex, and its "
            "busier way counts.")
    found = {estimate.case.name: estimate for estimate in estimates}
    if PAPER_CASE.name not in found:
        return text
    e, (flops, rate, gigabits) = found[PAPER_CASE.name], paper_estimate()
    atoms = e.device("gru").rows / PAPER_STEPS
    text += (f" The paper's arithmetic for hidden {PAPER_HIDDEN} and {PAPER_ATOMS} atoms, {flops / 1e6:.0f} MFLOP in the GRU, "
             f"gives {rate:,.0f} molecules/s. We count {e.bottleneck.flops / 1e6:.0f} MFLOP in {e.bottleneck.name} for "
             f"{atoms:.1f} atoms, the mean of the molecules here; for {PAPER_ATOMS} atoms that is "
             f"{e.rate * atoms / PAPER_ATOMS:,.0f} molecules/s. Gb/s do not depend on the number of atoms. Its 1.1 Gb/s for "
             f"the device of an edge type are {gigabits:.2f} if the types share one vector an atom and step evenly. Ours are "
             f"{_edge_types(e)} for edge1 to edge4: a type gets a row for each atom from which such a bond leaves, and single "
             "bonds leave from nearly all.")
    if FINE_CASE.name in found:
        text += f" With a message an edge they are {_edge_types(found[FINE_CASE.name])}: a row for each bond and direction."
    return text


def _edge_types(e):
    return ", ".join(f"{e.gigabits(e.device(f'edge{k}').links[0]):.3g}" for k in range(1, 5))


def picture(estimates):
    """A panel a case: operations of each device, and the traffic of its busiest link."""
    from matplotlib.figure import Figure
    most = max(len(e.devices) for e in estimates)
    rows = -(-len(estimates) // 2)
    figure = Figure(figsize=(10, rows * (0.19 * most + 0.9)), layout="constrained")
    panels = list(figure.subplots(rows, 2, squeeze=False).flat)
    for axes, e in zip(panels, estimates, strict=False):
        names = [device.name for device in e.devices]
        left = [0.0] * len(names)
        for way in (gantt.FORWARD, gantt.BACKWARD):
            lengths = [getattr(device, way) / 1e6 for device in e.devices]
            axes.barh(names, lengths, left=left, color=gantt.COLOURS[way], edgecolor="#666666", linewidth=0.5, label=way)
            left = [a + b for a, b in zip(left, lengths, strict=True)]
        for i, device in enumerate(e.devices):
            link = max(device.links, key=lambda link: link.busier_way)
            axes.annotate(f"{e.gigabits(link):.3g} Gb/s", (left[i], i), (3, 0), textcoords="offset points", va="center", size=7)
        axes.set_title(f"{e.case.name}: {e.rate:,.0f} instances/s", size=9, loc="left")
        axes.set_xlim(0, 1.2 * max(left))
        axes.set_ylim(most - 0.5, -0.5)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel("MFLOP an instance", size=8)
    panels[0].legend(frameon=False, fontsize=8, loc="lower right")
    for axes in panels[len(estimates):]:
        axes.set_visible(False)
    return figure

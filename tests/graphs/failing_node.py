"""A node kind that fails on purpose: Faulty, Y = X + a, which at one instance reports an error or writes a NaN."""

from ampnet.graphs.kit import (
    DONE,
    MESSAGE,
    USER_FAILURE,
    Node,
    Parameter,
    blame,
    messages,
    node_dtype,
    operation,
    pass_back,
    pass_on,
    payload,
    positive,
    record,
    vector,
    zeros,
)

FAULTY_DTYPE = node_dtype("offset", "offset_gradient", "place", "writes_nan", "at")
FAULTY = record(FAULTY_DTYPE)
NAN = float("nan")
STATUS = USER_FAILURE + 11
FORWARD, BACKWARD, SETTLE, REFRESH = range(1, 5)
PLACES = {"forward": FORWARD, "backward": BACKWARD, "settle": SETTLE, "refresh": REFRESH}


class Faulty(Node):
    """Y[r, j] = X[r, j] + a[j]. X, Y (rows, width), a (width,), all float32.

    place: "forward", "backward", "settle" or "refresh", which fails at instance `at`, in the latter two at the update after
    `at` others; writes_nan: instead of an error it leaves a NaN: in Y, in dX, in da or in a.
    """

    dtype, transparent = FAULTY_DTYPE, True

    def __init__(self, width, place, writes_nan, at, name=None):
        super().__init__(name)
        self.width, self.place, self.writes_nan, self.at = positive(width, "Faulty: width"), PLACES[place], writes_nan, at
        self.parameters = {"offset": Parameter((width,), zeros)}

    def output_widths(self, widths):
        return widths

    def fill(self, record, graph):
        offset = self.parameters["offset"]
        record["width"], record["place"], record["writes_nan"], record["at"] = self.width, self.place, self.writes_nan, self.at
        record["offset"], record["offset_gradient"] = offset.value.ctypes.data, offset.gradient.ctypes.data
        return []


@operation
def forward(worker, node, batch, count):
    """Y = X + a in the message itself."""
    self = FAULTY(node)
    a = vector(self.offset, self.width)
    for message in messages(batch, count):
        y = payload(message)
        for r in range(y.shape[0]):
            for j in range(y.shape[1]):
                y[r, j] += a[j]
        if self.place == FORWARD and MESSAGE(message).state[0] == self.at:
            if self.writes_nan == 0:
                return blame(worker, message, STATUS)
            y[0, 0] = NAN
        pass_on(worker, node, 0, message)
    return DONE


@operation
def backward(worker, node, batch, count):
    """da[j] += sum over r of dY[r, j]; dX = dY."""
    self = FAULTY(node)
    gradient = vector(self.offset_gradient, self.width)
    for message in messages(batch, count):
        d = payload(message)
        for r in range(d.shape[0]):
            for j in range(d.shape[1]):
                gradient[j] += d[r, j]
        if self.place == BACKWARD and MESSAGE(message).state[0] == self.at:
            if self.writes_nan == 0:
                return blame(worker, message, STATUS)
            d[0, 0] = NAN
        pass_back(worker, node, 0, message)
    return DONE


@operation
def settle(worker, node, batch, count):
    """Before an update."""
    self = FAULTY(node)
    if self.place == SETTLE and self.version == self.at:
        if self.writes_nan == 0:
            return STATUS
        vector(self.offset_gradient, self.width)[0] = NAN
    return DONE


@operation
def refresh(worker, node, batch, count):
    """After an update, which has been counted already."""
    self = FAULTY(node)
    if self.place == REFRESH and self.version == self.at + 1:
        if self.writes_nan == 0:
            return STATUS
        vector(self.offset, self.width)[0] = NAN
    return DONE


Faulty.forward, Faulty.backward, Faulty.settle, Faulty.refresh = forward, backward, settle, refresh

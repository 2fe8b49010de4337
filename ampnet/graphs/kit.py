"""Everything a node kind of your own is made of, in one import. docs/nodes.md builds one step by step."""

from ..errors import DataError, GraphError
from ..runtime.memory import integers, matrix, record, vector
from ..runtime.message import (
    DONE,
    MESSAGE,
    NO_ACTIVATION,
    NO_DATA,
    NOT_FINITE,
    SAME_STATE,
    USER_FAILURE,
    WRONG_SHAPE,
    answer,
    blame,
    copy_values,
    emit,
    empty,
    is_training,
    messages,
    new_block,
    operation,
    pass_back,
    pass_on,
    payload,
    release,
    scratch,
    send,
    values,
)
from ..runtime.records import node_dtype
from ..runtime.table import get, keep, put, take
from .nodes.node import Node, positive, shape
from .parameters import Parameter, normal, uniform, zeros

__all__ = [
    "DONE", "MESSAGE", "NOT_FINITE", "NO_ACTIVATION", "NO_DATA", "SAME_STATE", "USER_FAILURE", "WRONG_SHAPE", "DataError",
    "GraphError", "Node", "Parameter", "answer", "blame", "copy_values", "emit", "empty", "get", "integers",
    "is_training", "keep", "matrix", "messages", "new_block", "node_dtype", "normal", "operation", "pass_back", "pass_on",
    "payload", "positive", "put", "record", "release", "scratch", "send", "shape", "take", "uniform", "values", "vector",
    "zeros",
]

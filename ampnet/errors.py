"""Every error a user of the package can meet; all of them are `AmpnetError`."""


class AmpnetError(Exception):
    """Base of all errors raised on purpose; its text is one line fit for a user."""


class DataError(AmpnetError, ValueError):
    """A data file or column is missing, damaged or holds a value that cannot be."""


class GraphError(AmpnetError, ValueError):
    """A graph is wired wrongly, or a node was given an impossible size."""


class SettingError(AmpnetError, ValueError):
    """An option or a configuration value is out of its range."""


class CheckpointError(AmpnetError):
    """A checkpoint cannot be read, or does not fit the model."""


class RecordError(AmpnetError):
    """A recorded order cannot be written or read, or does not fit the run that shall repeat it."""


class OperationError(AmpnetError, RuntimeError):
    """A node's operation failed while the workers ran."""


class DivergenceError(OperationError, ArithmeticError):
    """A loss or gradient is no longer finite."""

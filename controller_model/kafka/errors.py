"""The errors of the model.

The rule: what ZooKeeper or the log holds never raises out of `replay`. A decoder raises its own
error, its caller turns it into an `events.Anomaly`; a `ModelError` is a mistake of ours.
"""


class ModelError(Exception):
    """A mistake in our own code: a rule of the model was broken from inside."""


class UnreadableZnodeError(ValueError):
    """A znode's payload is not what Kafka writes there; the message says why."""


class UnreadableRecordError(ValueError):
    """A record of one of the three topics is not ours, damaged, or of an unknown version."""

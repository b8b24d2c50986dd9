"""The exceptions of the model.

`replay` raises nothing because of what ZooKeeper or the log holds. A decoder raises its
own error, and its caller turns it into an `events.Anomaly`. A `ModelError` means a bug in kcm.
"""


class ModelError(Exception):
    """A bug in kcm: its own code broke a rule of the model."""


class UnreadableZnodeError(ValueError):
    """A znode's payload is not what Kafka writes there; the message says why."""


class UnreadableRecordError(ValueError):
    """A record of one of the three topics is not one of kcm's, is damaged, or has an unknown version."""

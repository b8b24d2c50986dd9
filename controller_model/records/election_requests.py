"""A record of the log that no watcher writes: `kcm elect` is about to ask for preferred elections.

The rule: it stands in the log before the elections that it asks for, since it is written before Kafka is asked, and
its cluster's records keep their order. It has no generation and no seq: a fold counts nothing by it, takes no time of
it, and learns of no cluster by it. All that it can change is who is said to have asked for an election.
"""

import enum
from typing import Annotated, Literal

import msgspec

MOST_PARTITIONS = 500
"""Of one request; a record that names more is damage."""

Topic = Annotated[str, msgspec.Meta(min_length=1, max_length=249)]
"""Kafka takes no longer name (org.apache.kafka.common.internals.Topic)."""
Partition = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class ElectionOrigin(enum.StrEnum):
    """Who asked the controller for a preferred election."""

    KCM = "kcm"
    """`kcm elect`, which said so in the log before it asked."""
    ZNODE = "znode"
    """A request under /admin/preferred_replica_election, which older tools write."""
    REBALANCE = "rebalance"
    """Inferred: the controller's own check (auto.leader.rebalance.enable) elects all at once that a broker above the
    threshold can get back, and so it was."""
    OTHER = "other"
    """None of these: somebody's tool that asks a broker, which ZooKeeper does not show; or it was found by reading all
    again, after it had happened out of sight."""


class ElectionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`kcm elect` asks for preferred elections of these partitions now."""

    v: int
    cluster: str
    kind: Literal["election_requested"]
    partitions: Annotated[
        tuple[tuple[Topic, Partition], ...], msgspec.Meta(max_length=MOST_PARTITIONS)
    ]
    requested_at: Milliseconds
    """Since 1970, by the clock of the machine that asks: for people alone, nothing is compared with it."""
    holds_ms: Milliseconds
    """For how long it may take until these elections are seen: what is elected later is another's."""


_encoder = msgspec.json.Encoder()


def encode_request(request: ElectionRequest) -> bytes:
    """Return a message of the log that holds a request."""
    return _encoder.encode([request])

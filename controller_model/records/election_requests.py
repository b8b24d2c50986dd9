"""Records of the log that no watcher writes: `kcm elect` is about to request preferred elections.

The rule: a request precedes its elections in the log, because it is written before Kafka is asked, and
a cluster's records keep their order. It has no generation and no seq: a fold counts nothing by it, takes no time from
it, and learns of no cluster through it. It changes only who is reported to have asked for an election.
"""

import enum
from typing import Annotated, Literal

import msgspec

MAX_PARTITIONS = 500
"""Partitions in one request; a record that names more is damage."""

Topic = Annotated[str, msgspec.Meta(min_length=1, max_length=249)]
"""A topic's name; Kafka accepts none that is longer (org.apache.kafka.common.internals.Topic)."""
Partition = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class ElectionOrigin(enum.StrEnum):
    """Who asked the controller for a preferred election."""

    KCM = "kcm"
    """`kcm elect`, which wrote that to the log before it asked."""
    ZNODE = "znode"
    """A request under /admin/preferred_replica_election, which older tools write."""
    REBALANCE = "rebalance"
    """Inferred: the controller's own check (auto.leader.rebalance.enable). It elects at once all that a broker above
    the threshold can get back, and that is what was seen."""
    OTHER = "other"
    """None of these: a tool that asks a broker, which ZooKeeper does not show; or a resync found the election after it
    had happened unseen."""


class ElectionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of `kcm elect` for preferred elections of these partitions."""

    v: int
    cluster: str
    kind: Literal["election_requested"]
    partitions: Annotated[
        tuple[tuple[Topic, Partition], ...], msgspec.Meta(max_length=MAX_PARTITIONS)
    ]
    requested_at: Milliseconds
    """Milliseconds since 1970 by the clock of the machine that asks: for people only, nothing is compared with it."""
    holds_ms: Milliseconds
    """How long it may take until these elections are seen: a later election is not attributed to this request."""


def encode_request(request: ElectionRequest) -> bytes:
    """Return a message of the log that holds one request, as JSON."""
    return msgspec.json.encode([request])

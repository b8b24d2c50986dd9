"""What is held of a topic and its partitions: one packed value a topic.

The rule: these are values. `ClusterState` alone puts another one in the place of one that is held, so
that the totals always are the sum of what is held.
"""

from collections.abc import Mapping

import msgspec

from controller_model.state.znode_stat import ZnodeStat


class PartitionRecord(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """One partition: its assignment and, once the controller wrote one, its state."""

    replicas: tuple[int, ...] | None = None
    """None: a state stands without an assignment (the topic is being made or deleted)."""
    leader: int | None = None
    """None: no state znode."""
    isr: tuple[int, ...] = ()
    leader_epoch: int = 0
    controller_epoch: int = 0
    leader_recovery_state: int = 0
    stat: ZnodeStat | None = None


class TopicState(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """One topic; the value under its name in the fold's state."""

    name: str
    partitions: Mapping[int, PartitionRecord] = {}
    adding: Mapping[int, tuple[int, ...]] = {}
    removing: Mapping[int, tuple[int, ...]] = {}
    topic_id: str | None = None
    min_isr: int | None = None
    reassigning_since: int | None = None
    stat: ZnodeStat | None = None
    """None: the topic's znode does not exist (any more, or yet)."""
    config_stat: ZnodeStat | None = None
    unclean: bool | None = None
    """unclean.leader.election.enable of the topic's own configuration; None when it sets none."""
    view_digests: tuple[int, ...] = ()
    """The digests (`view_digest`) of its views as they were published last, one for each."""

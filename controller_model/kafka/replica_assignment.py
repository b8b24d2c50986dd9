"""The replicas of a partition, and which of them a reassignment adds or removes.

The rule: `replicas` holds all of them, including those that are being added or removed, in the
order in which elections choose; the first one is the preferred replica. Source:
kafka.controller.ReplicaAssignment (ControllerContext.scala, Kafka 3.9).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec


class ReplicaAssignment(msgspec.Struct, frozen=True):
    """The replicas of a partition (kafka.controller.ReplicaAssignment)."""

    replicas: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def origin_replicas(self) -> tuple[int, ...]:
        """The replicas from before the reassignment (originReplicas)."""
        return diff(self.replicas, self.adding)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The replicas that stay (targetReplicas); all of them when nothing is reassigned."""
        return diff(self.replicas, self.removing)

    @property
    def is_being_reassigned(self) -> bool:
        """Return whether replicas are being added or removed (isBeingReassigned)."""
        return bool(self.adding or self.removing)

    def reassign_to(self, target: Sequence[int]) -> ReplicaAssignment:
        """Return the assignment while it moves to the target (reassignTo).

        Replicas that an earlier, unfinished reassignment was adding are dropped: the origin is the
        assignment from before that reassignment.

        >>> ReplicaAssignment((1, 2, 3)).reassign_to((2, 5, 6))
        ReplicaAssignment(replicas=(2, 5, 6, 1, 3), adding=(5, 6), removing=(1, 3))
        """
        origin = self.origin_replicas
        everybody = tuple(dict.fromkeys((*target, *origin)))  # scala.collection.Seq.distinct
        return ReplicaAssignment(everybody, diff(everybody, origin), diff(everybody, target))

    def remove_replica(self, replica: int) -> ReplicaAssignment:
        """Return the assignment without this replica (removeReplica)."""
        return ReplicaAssignment(
            _without(self.replicas, replica),
            _without(self.adding, replica),
            _without(self.removing, replica),
        )


EMPTY_ASSIGNMENT = ReplicaAssignment()
"""The assignment of a partition that has no replicas (ReplicaAssignment.empty)."""


def diff(replicas: Sequence[int], others: Collection[int]) -> tuple[int, ...]:
    """Return the replicas without the others, one occurrence each (scala.collection.Seq.diff).

    >>> diff((1, 2, 1), (1,))
    (2, 1)
    """
    left = list(others)
    kept = []
    for replica in replicas:
        if replica in left:
            left.remove(replica)
        else:
            kept.append(replica)
    return tuple(kept)


def _without(replicas: tuple[int, ...], replica: int) -> tuple[int, ...]:
    return tuple(other for other in replicas if other != replica)

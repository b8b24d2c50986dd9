"""What the fold's state holds of recommendations."""

import msgspec

from controller_model.records.recommendations import Recommended


class Watched(msgspec.Struct, array_like=True):
    """A partition of the current recommendation that is watched for the grade."""

    broker: int
    """Its preferred replica."""
    regained_at: int | None = None
    lost_at: int | None = None


class BrokerMemory(msgspec.Struct, array_like=True):
    """What is held of a broker between samples."""

    mendable_since: int | None = None
    clear_since: int | None = None
    recommended_at: int | None = None
    """When it was last recommended, or elected and graded; None once that is settled."""


class ElectionRound(msgspec.Struct, array_like=True):
    """Preferred elections for a broker without a known request, while more may follow."""

    count: int
    began_at: int
    last_at: int
    could_be_check: bool
    """The broker was above the threshold before them, and they followed each other without a pause."""


class RecommendationState(msgspec.Struct, array_like=True):
    """The current recommendation, what is watched for its grade, and earlier grades."""

    made: int = 0
    standing: Recommended | None = None
    elected_at: int | None = None
    elections: int = 0
    """Preferred elections for the brokers of the current recommendation: the time of the first, and their number."""
    watched: dict[str, dict[int, Watched]] = {}
    """The watched partitions, by topic and partition."""
    gone: int = 0
    """Partitions that were watched until their topic was deleted."""
    brokers: dict[int, BrokerMemory] = {}
    grades: list[bytes] = []
    """The last GRADES_KEPT as JSON, newest last: they are decoded only when they are reported."""
    graded: dict[str, int] = {}
    revision: int = 0
    """Rises with each change of what the view shows."""
    elected_by: dict[str, int] = {}
    """How many of `elections` each origin asked for (ElectionOrigin). Those in `rounds` are judged later; the rest are
    OTHER's."""
    rounds: dict[int, ElectionRound] = {}
    """The current round of each broker."""
    others_at: int | None = None
    """When an election was last seen that the controller's own check would not hold."""

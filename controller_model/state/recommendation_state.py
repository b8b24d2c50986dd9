"""The account of recommendations, as it is held."""

import msgspec

from controller_model.records.recommendations import Recommended


class Watched(msgspec.Struct, array_like=True):
    """A partition of the recommendation that stands."""

    broker: int
    """Its preferred replica."""
    regained_at: int | None = None
    lost_at: int | None = None


class BrokerMemory(msgspec.Struct, array_like=True):
    """What is remembered of a broker between samples."""

    mendable_since: int | None = None
    clear_since: int | None = None
    recommended_at: int | None = None
    """When it was recommended last, or elected and graded; None once that is settled."""


class ElectionRound(msgspec.Struct, array_like=True):
    """Preferred elections towards a broker that nobody was seen to ask for, while more may follow."""

    count: int
    began_at: int
    last_at: int
    could_be_check: bool
    """The broker was above the threshold before them, and they follow each other without a pause."""


class RecommendationState(msgspec.Struct, array_like=True):
    """The account of recommendations, in the fold's state."""

    made: int = 0
    standing: Recommended | None = None
    elected_at: int | None = None
    elections: int = 0
    """Preferred elections towards the brokers of the one that stands: the first, and how many."""
    watched: dict[str, dict[int, Watched]] = {}
    """By topic and partition."""
    gone: int = 0
    """Partitions that were watched until their topic was deleted."""
    brokers: dict[int, BrokerMemory] = {}
    grades: list[bytes] = []
    """The last GRADES_KEPT as JSON, newest last: they are read when they are reported only."""
    graded: dict[str, int] = {}
    revision: int = 0
    """Grows with each change of what the view shows."""
    elected_by: dict[str, int] = {}
    """Of `elections`, how many by whom (ElectionOrigin): those in `rounds` are judged later, the rest are others'."""
    rounds: dict[int, ElectionRound] = {}
    """By broker."""
    others_at: int | None = None
    """When an election was seen last that the controller's own check does not hold."""

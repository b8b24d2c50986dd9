"""What the fold's state holds of preferred elections that were requested and not yet seen."""

import msgspec

from controller_model.records.election_requests import ElectionOrigin


class AskedElection(msgspec.Struct, array_like=True, frozen=True):
    """Who asked for an election of one partition, and until when (log's clock) it is attributed to them."""

    by: ElectionOrigin
    until: int


class ElectionState(msgspec.Struct, array_like=True):
    """The requested elections, in the fold's state."""

    asked: dict[str, dict[int, AskedElection]] = {}
    """By topic and partition; bounded (tracking.asked_elections)."""

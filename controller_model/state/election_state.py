"""Preferred elections that were asked for and not yet seen, as they are held."""

import msgspec

from controller_model.records.election_requests import ElectionOrigin


class AskedElection(msgspec.Struct, array_like=True, frozen=True):
    """Of one partition: who asked for it, and until when (by the log's clock) it is theirs."""

    by: ElectionOrigin
    until: int


class ElectionState(msgspec.Struct, array_like=True):
    """What was asked for, in the fold's state."""

    asked: dict[str, dict[int, AskedElection]] = {}
    """By topic and partition; bounded (tracking.asked_elections)."""

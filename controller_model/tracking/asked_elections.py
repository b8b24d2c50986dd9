"""Preferred elections whose request can be seen, so that each election gets its origin.

The rule: the log holds a request before it holds the elections, so the first preferred election of a partition
after a request belongs to that request; no clocks are compared. A request is held by the log's clock for as long
as it may take and no longer, and all requests together hold a limited number of partitions.
"""

from collections.abc import Iterable, Sequence

import msgspec

from controller_model.records.completeness import LATE_MS
from controller_model.records.election_requests import ElectionOrigin, ElectionRequest
from controller_model.state.control_plane import AskedElection, ControlPlane

MAX_HELD_MS = 600_000
"""How long a request is held at most, whatever it says, and while a tool's own request waits."""

MAX_ASKED = 10_000
"""Partitions that are held. If a request would exceed this, all earlier ones are dropped: somebody who writes
requests without end cannot keep the newest one out."""


def store_request(control: ControlPlane, request: ElectionRequest) -> None:
    """Store a request of the log's. The log's clock may be late by a heartbeat at its position."""
    _store(control, ElectionOrigin.KCM, request.partitions, min(request.holds_ms, MAX_HELD_MS))


def store_tool_request(control: ControlPlane, partitions: Sequence[tuple[str, int]]) -> None:
    """Store a request that a tool made of the controller itself."""
    _store(control, ElectionOrigin.ZNODE, partitions, MAX_HELD_MS)


def expire_tool_request(control: ControlPlane) -> None:
    """Let that request expire soon: the controller is done, but its writes may be read later."""
    until = control.now + LATE_MS
    for partitions in control.elections.asked.values():
        for partition, asked in partitions.items():
            if asked.by is ElectionOrigin.ZNODE and asked.until > until:
                partitions[partition] = msgspec.structs.replace(asked, until=until)


def origin_of(
    control: ControlPlane, topic: str, partition: int, *, at: int
) -> ElectionOrigin | None:
    """Return who asked for the election that a partition has just had, and drop the request; None: none was seen."""
    partitions = control.elections.asked.get(topic)
    asked = None if partitions is None else partitions.pop(partition, None)
    if not partitions:
        control.elections.asked.pop(topic, None)
    return asked.by if asked is not None and at <= asked.until else None


def release_expired(control: ControlPlane) -> None:
    """Drop requests held for too long: with each heartbeat, because the state is written with each batch."""
    elections, now = control.elections, control.now
    if elections.asked:
        left = {
            topic: {p: asked for p, asked in partitions.items() if asked.until >= now}
            for topic, partitions in elections.asked.items()
        }
        elections.asked = {topic: partitions for topic, partitions in left.items() if partitions}


def _store(
    control: ControlPlane,
    by: ElectionOrigin,
    partitions: Iterable[tuple[str, int]],
    held_ms: int,
) -> None:
    if not control.log.baseline:
        return  # elections are not reported before the baseline
    release_expired(control)
    taken = tuple(partitions)[:MAX_ASKED]
    elections = control.elections
    if sum(map(len, elections.asked.values())) + len(taken) > MAX_ASKED:
        elections.asked.clear()
    asked = AskedElection(by, control.now + held_ms + LATE_MS)
    for topic, partition in taken:
        elections.asked.setdefault(topic, {})[partition] = asked

"""Preferred elections that somebody asked for where it can be seen, so that an election is given its origin.

The rule: the log holds what was asked for before it holds what was elected, so the first preferred election of a
partition after a request is the request's; no clocks are compared. A request is held by the log's clock, for
as long as it may take and no longer, and of requests together only so many partitions.
"""

from collections.abc import Iterable, Sequence

import msgspec

from controller_model.records.completeness import LATE_MS
from controller_model.records.election_requests import ElectionOrigin, ElectionRequest
from controller_model.state.control_plane import ControlPlane
from controller_model.state.election_state import AskedElection

MOST_HELD_MS = 600_000
"""Whatever a request says, and while it stands under /admin."""

MOST_ASKED = 10_000
"""Partitions that are held. Where a request would bring more, those before it are let go: whoever writes
requests without an end cannot keep the newest one out."""


def take_request(control: ControlPlane, request: ElectionRequest) -> None:
    """Take a request of the log's. The log's clock may be late by a heartbeat where it stands."""
    _hold(control, ElectionOrigin.KCM, request.partitions, min(request.holds_ms, MOST_HELD_MS))


def take_znode(control: ControlPlane, partitions: Sequence[tuple[str, int]]) -> None:
    """Take what stands under /admin/preferred_replica_election."""
    _hold(control, ElectionOrigin.ZNODE, partitions, MOST_HELD_MS)


def end_znode(control: ControlPlane) -> None:
    """Let what stood there go soon: the controller is through, and its writes may be read after the znode's end."""
    until = control.now + LATE_MS
    for partitions in control.elections.asked.values():
        for partition, asked in partitions.items():
            if asked.by is ElectionOrigin.ZNODE and asked.until > until:
                partitions[partition] = msgspec.structs.replace(asked, until=until)


def origin_of(
    control: ControlPlane, topic: str, partition: int, *, at: int
) -> ElectionOrigin | None:
    """Return who asked for the election that a partition has just had, which uses the request up; None: nobody seen."""
    partitions = control.elections.asked.get(topic)
    asked = None if partitions is None else partitions.pop(partition, None)
    if not partitions:
        control.elections.asked.pop(topic, None)
    return asked.by if asked is not None and at <= asked.until else None


def let_go(control: ControlPlane) -> None:
    """Let go what is held for too long: with each heartbeat, since the state is written with each batch."""
    elections, now = control.elections, control.now
    if elections.asked:
        left = {
            topic: {p: asked for p, asked in partitions.items() if asked.until >= now}
            for topic, partitions in elections.asked.items()
        }
        elections.asked = {topic: partitions for topic, partitions in left.items() if partitions}


def _hold(
    control: ControlPlane,
    by: ElectionOrigin,
    partitions: Iterable[tuple[str, int]],
    held_ms: int,
) -> None:
    if not control.log.baseline:
        return  # nothing is reported as elected yet
    let_go(control)
    taken = tuple(partitions)[:MOST_ASKED]
    elections = control.elections
    if sum(map(len, elections.asked.values())) + len(taken) > MOST_ASKED:
        elections.asked.clear()
    asked = AskedElection(by, control.now + held_ms + LATE_MS)
    for topic, partition in taken:
        elections.asked.setdefault(topic, {})[partition] = asked

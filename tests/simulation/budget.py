"""The work budget: what the parts may do once all faults have ended and nothing changes.

The rule: a fault that has ended costs nothing any more. What is allowed follows from the intervals
of the watcher's settings and from the size of the cluster alone.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from controller_model.records.changes import ChangeKind
from tests.simulation.oracle import BrokenError, decoded
from tests.simulation.stage import CLUSTER

if TYPE_CHECKING:
    from tests.simulation.world import World

INTERVALS = 2
"""For how many reconciliation intervals the work is measured."""

LEAST_MS = 12_000
"""It is measured for at least this long: a heartbeat comes every 10 s."""

_STEP_MS = 500
_NEVER_MS = 86_400_000
_BEAT_BYTES = 1_000
_STILL = {ChangeKind.HEARTBEAT, ChangeKind.RECONCILED}
"""The records that a watcher writes while nothing changes."""


def check(world: World) -> None:
    """Let nothing happen for a while; raise BrokenError if a part does more than it must."""
    settings = world.settings
    interval_ms = round(settings.reconciliation_interval_s * 1000)
    lasts_ms = max(INTERVALS * interval_ms, LEAST_MS)
    tries_again = any(each.alive and each.tries_watches_within(lasts_ms) for each in world.edges)
    if settings.full_resync_s * 1000 < _NEVER_MS or tries_again:
        return  # a resync may be due: the regular one, or one with recursive watches, which were refused
    before, log_end, views_end = _work(world), world.log.end, world.views.end
    for _ in range(0, lasts_ms, _STEP_MS):
        world.pass_at_rest(_STEP_MS)
    own = CLUSTER.encode()
    messages = [each for each in world.log.read(log_end) if each.key == own]
    written = Counter(change.kind for change in decoded(messages))
    views = [each for each in world.views.read(views_end) if each.key.split(b"/")[0] == own]
    beats = [each for each in views if each.key.endswith(b"/watcher")]
    reconciled = lasts_ms // interval_ms + 1
    heartbeats = round(lasts_ms / 1000 / settings.heartbeat_s) + 1
    # A walk reads each znode, and the children of most; questions that show whether ZooKeeper answers come once a second.
    reads = reconciled * (2 * len(world.zk.tree.nodes) + 10)
    done = _work(world) - before
    batches = done["batches"]
    shown = world.exporter.snapshot
    brokers = 0 if shown is None else len(shown.brokers)
    cluster_view = max(
        (len(v.value or b"") for v in views if v.key.endswith(b"/cluster")), default=0
    )
    limits = {
        "changes that a watcher writes": (sum(written[kind] for kind in set(written) - _STILL), 0),
        "reconciliations": (written[ChangeKind.RECONCILED], reconciled),
        "heartbeats": (written[ChangeKind.HEARTBEAT], heartbeats),
        "lines of logs": (done["lines"], 0),
        "reads of znodes": (done["reads"], reads),
        "requests to ZooKeeper": (done["requests"], reads + lasts_ms // 1000 + 2),
        "batches": (batches, done["messages"] + 1),
        "beats": (len(beats), lasts_ms // 1000 + 2),
        "views of topics": (sum(b"/topic/" in each.key for each in views), 0),
        # After a proof all brokers are published again, and what is known of incidents and recommendations.
        "views": (
            len(views) - len(beats),
            batches + reconciled * (brokers + 2),
        ),
        "bytes of views": (
            sum(len(each.value or b"") for each in views),
            2 * cluster_view * (batches + reconciled) + _BEAT_BYTES * len(beats),
        ),
    }
    for what, (count, most) in limits.items():
        if count > most:
            detail = f"{count} {what} in {lasts_ms} ms, {most} are enough"
            raise BrokenError("who rests does no work", detail)


def _work(world: World) -> Counter[str]:
    """Return how much was done so far."""
    beside = 0 if world.log.beside is None else world.log.beside.end
    return Counter(
        batches=world.oracle.checks,
        messages=world.log.end + beside,
        lines=world.stage.lines,
        reads=sum(edge.watcher.reader.reads for edge in world.edges),
        requests=sum(edge.requests for edge in world.edges),
    )

"""Decides whether a resync may begin: has the server caught up, and is its history the same as before?

The rule: a resync must not start from less than the fold knows, or a lagging follower would undo
what is known. sync("/") makes a server catch up with its leader. If its zxid stays below for
`MAX_LAG_MS` after that, or /cluster/id differs, the ensemble was restored or recreated, and the
resync is a rebase. Without /brokers there is nothing to watch yet: the chroot is wrong, or the
cluster has not started.
"""

from collections.abc import Sequence
from typing import NamedTuple

from controller_model.kafka.errors import UnreadableZnodeError
from controller_model.kafka.ids import NOWHERE, Position
from controller_model.records.views import ClusterView, ResyncWanted
from controller_model.sources.zookeeper.payloads import decode_cluster_id
from zk_source.wire.operations import Err, Op, Read, Refused, Result, ZnodeData

PROBE: tuple[Read, ...] = ((Op.GET_CHILDREN, "/brokers"), (Op.GET_DATA, "/cluster/id"))
"""What is read before a resync."""

MAX_LAG_MS = 10_000
"""A partitioned leader may answer with an old zxid until its peers have left it, which takes some ticks."""

FIRST_RETRY_MS = 250
MAX_RETRY_MS = 5_000
"""The pause between tries doubles from the first to the second of these."""


class ResyncReadiness(NamedTuple):
    """The resync may begin."""

    rebase: bool


class Wait(NamedTuple):
    """The resync may not begin yet: try again later."""

    why: str
    no_brokers: bool = False


class ReadinessCheck:
    """Compares a server with what the fold and this watcher have seen of its ensemble."""

    def __init__(self) -> None:
        self.unanswered: ResyncWanted | None = None
        """The fold's newest request, while no resync has answered it."""
        self._cluster_id: str | None = None
        self.highest_zxid = 0
        """The largest zxid of a reply since the last rebase."""
        self._view_zxid = 0
        self._rebased_at = NOWHERE
        self._answered: tuple[str, int] | None = None
        self._asked: tuple[str, int] | None = None
        self._under_way = False
        self._needed_zxid = 0
        self._synced_zxid = 0
        self._behind_since_ms: int | None = None
        self._retry_at_ms = 0
        self._retry_ms = FIRST_RETRY_MS

    def on_view(self, view: ClusterView) -> None:
        """Note how far the fold is, and which resync it requests."""
        as_of, wanted = view.as_of, view.resync_wanted
        if as_of.position >= self._rebased_at:
            self._view_zxid = view.log.read_zxid
            self._cluster_id = self._cluster_id or view.config.cluster_id
        self._asked = (as_of.lineage, wanted.number) if wanted else None
        self.unanswered = wanted if self._asked != self._answered else None

    def answer(self) -> int | None:
        """Return the number of the request that the resync now beginning answers; None when none is open."""
        answered, self.unanswered = self.unanswered, None
        self._answered = self._asked
        return answered.number if answered else None

    def rebased_at(self, position: Position) -> None:
        """Note a rebase: views from before it belong to another history."""
        self._rebased_at = position
        self._view_zxid = 0
        self.highest_zxid = self._synced_zxid

    def start(self, now_ms: int) -> bool:
        """Begin a check; return False while one is in progress or the pause after one lasts."""
        if self._under_way or now_ms < self._retry_at_ms:
            return False
        self._under_way = True
        self._needed_zxid = max(self.highest_zxid, self._view_zxid)
        return True

    def stop(self) -> None:
        """Forget a check in progress: its replies will not arrive, and the next one may ask another server."""
        self._under_way = False
        self._retry_at_ms = 0
        self._behind_since_ms = None

    def on_sync(self, zxid: int) -> None:
        """Note the zxid that the server caught up to; 0 when it did not answer."""
        self._synced_zxid = zxid

    def judge(self, results: Sequence[Result], now_ms: int) -> ResyncReadiness | Wait:
        """Return whether the resync may begin, by the probe's results (after `on_sync`)."""
        self._under_way = False
        brokers, cluster_id = results
        if brokers == Refused(Err.NO_NODE):
            return self._wait(Wait("no /brokers", no_brokers=True), now_ms)
        rebase = self._is_another_cluster(cluster_id)
        if not rebase and self._synced_zxid < self._needed_zxid:
            since_ms = self._behind_since_ms if self._behind_since_ms is not None else now_ms
            self._behind_since_ms = since_ms
            if now_ms - since_ms < MAX_LAG_MS or not self._synced_zxid:
                why = f"the server is at zxid {self._synced_zxid}, below {self._needed_zxid}"
                return self._wait(Wait(f"{why} that was seen before"), now_ms)
            rebase = True
        self._behind_since_ms = None
        self._retry_ms = FIRST_RETRY_MS
        return ResyncReadiness(rebase)

    def _wait(self, wait: Wait, now_ms: int) -> Wait:
        self._retry_at_ms = now_ms + self._retry_ms
        limit = MAX_RETRY_MS if wait.no_brokers else 1_000
        self._retry_ms = min(self._retry_ms * 2, limit)
        return wait

    def _is_another_cluster(self, result: Result) -> bool:
        if not isinstance(result, ZnodeData):
            return False
        try:
            cluster_id = decode_cluster_id(result.data)
        except UnreadableZnodeError:
            return False
        before, self._cluster_id = self._cluster_id, cluster_id
        return before is not None and before != cluster_id

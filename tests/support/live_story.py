"""A bad hour of a cluster, for the live page: the simulated controller's writes, folded into views.

The rule: nothing that the page shows is invented. The writes are those of the simulated controller,
the figures and events those of the fold; only the times are set, and hosts and racks are added.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from controller_model.records.event_records import EventId, EventRecord, coalesce, number
from controller_model.records.views import AnyView
from controller_model.sources.zookeeper.znode_kinds import is_published
from controller_simulator.cluster.operations import DeleteController, KillBroker, StartBroker
from controller_simulator.cluster.settings import Choices
from controller_simulator.zookeeper.transactions import Committed, Created, Removed
from tests.support.api_server import Served
from tests.support.histories import Fold, History
from tests.support.scripted_operations import BounceBroker, CreateTopic, ScriptedOperation
from tests.support.scripted_simulator import ScriptedSimulator

HEARTBEAT_MS = 10_000
MINUTE_MS = 60_000
BROKERS = range(6)
TOPICS = {"audit": 6, "clicks": 48, "orders": 24, "payments": 12, "shipments": 24}
LONE = "legacy-export"
"""A topic with a single replica."""
_IDS = "/brokers/ids/"


def assignment(partitions: int, first: int) -> tuple[tuple[int, ...], ...]:
    """Return three replicas for each partition, spread over the brokers."""
    brokers = len(BROKERS)
    return tuple(
        tuple((first + partition + step) % brokers for step in (0, 1, 3))
        for partition in range(partitions)
    )


TOPICS_MADE = tuple(
    CreateTopic(topic, assignment(partitions, index))
    for index, (topic, partitions) in enumerate(TOPICS.items())
)
QUIET_HOUR: tuple[tuple[int, ScriptedOperation], ...] = (
    *((60, StartBroker(broker)) for broker in BROKERS),
    *((59, made) for made in TOPICS_MADE),
)
"""Operations, and how many minutes ago they were."""
BAD_HOUR: tuple[tuple[int, ScriptedOperation], ...] = (
    *QUIET_HOUR,
    (58, CreateTopic(LONE, ((2,), (2,)))),
    (44, DeleteController()),
    (31, BounceBroker(1)),
    (18, DeleteController()),
    (17, BounceBroker(4)),
    (2, KillBroker(2)),
)


class _TakingTurns(Choices):
    """The next broker in order wins /controller, so that elections can be distinguished."""

    def __init__(self) -> None:
        super().__init__()
        self._last = -1

    def first(self, candidates: tuple[int, ...]) -> int:
        """Return the first candidate above the previous winner."""
        above = [broker for broker in candidates if broker > self._last]
        self._last = min(above or candidates)
        return self._last


class LiveStory:
    """A cluster on which operations are run, and the reports about it."""

    def __init__(self, *, until: int) -> None:
        """Start an hour before `until`, in milliseconds since 1970."""
        self.until = until
        self._simulator = ScriptedSimulator(choices=_TakingTurns())
        self._history = History(now=until - 61 * MINUTE_MS)
        self._history.resync()
        self._fold = Fold(min_isr=2)
        self._reported = 0
        self._accounts = 0
        self._last: EventId | None = None
        self.events: list[EventRecord] = []

    def play(self, script: Iterable[tuple[int, ScriptedOperation]]) -> None:
        """Run operations, each a number of minutes before the end."""
        for minutes, operation in script:
            self.beat(self.until - minutes * MINUTE_MS)
            self._simulator.tree.time_ms = self._history.now
            self._simulator.perform(operation)
            self._report()
        self.beat(self.until)

    def beat(self, until: int) -> None:
        """Let heartbeats pass, with a reconciliation from time to time that verifies the figures."""
        while self._history.now + HEARTBEAT_MS <= until:
            self._history.heartbeat(after_ms=HEARTBEAT_MS)
            if self._history.seq % 30 == 0:
                self._history.reconciled()
            self._feed()

    def views(self) -> Sequence[AnyView]:
        """Return the views that changed since the last call; the cluster's is the last."""
        return list(self._fold.views(folded_at=self.until).values())

    def _report(self) -> None:
        commits = self._simulator.commits[self._reported :]
        self._reported = len(self._simulator.commits)
        for commit in commits:
            self._history.now = max(self._history.now, commit.time_ms)
            writes = [write for write in commit.writes if is_published(write.path)]
            with self._history.transaction():
                for write in writes:
                    self._make(write)
            for path in dict.fromkeys(write.path for write in writes):
                self._history.report(path)
        self._feed()

    def _make(self, write: Committed) -> None:
        if isinstance(write, Removed):
            self._history.delete(write.path, seen=False)
            return
        owner = write.owner if isinstance(write, Created) else 0
        data = _placed(write.path, write.data) if write.path.startswith(_IDS) else write.data
        self._history.set(write.path, data, ephemeral_owner=owner, seen=False)

    def _feed(self) -> None:
        reported = self._fold.follow(self._history)
        reported += self._fold.accounts[self._accounts :]
        self._accounts = len(self._fold.accounts)
        records = number("prod", "l", coalesce(reported), after=self._last)
        self.events += records
        if records:
            self._last = records[-1].id


def _placed(path: str, data: str) -> str:
    """Return a broker's registration with its own host and rack; data that is not JSON is unchanged."""
    try:
        content = json.loads(data)
    except ValueError:
        return data
    broker = int(path.removeprefix(_IDS))
    host, rack = f"kafka-{broker}.example.net", "abc"[broker % 3]
    endpoints = [f"PLAINTEXT://{host}:9092"]
    return json.dumps({**content, "host": host, "rack": rack, "port": 9092, "endpoints": endpoints})


def served(story: LiveStory, script: Iterable[tuple[int, ScriptedOperation]]) -> Served:
    """Run a script; return an exporter that has read its reports."""
    story.play(script)
    exporter = Served()
    exporter.write(*story.views())
    exporter.publish(*story.events)
    return exporter

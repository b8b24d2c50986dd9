"""A watcher run in a thread on real servers, and a reader of what it writes."""

from __future__ import annotations

import math
import threading
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from controller_model.records.changes import ChangeKind, SessionState, ZnodeChange, decode_message
from controller_model.sources.zookeeper.znode_kinds import WATCHED_SUBTREES, is_published
from kcm.servers.kafka import KraftBroker
from kcm.servers.zookeeper import ZooKeeper
from pipeline.runtime import KcmError
from pipeline.settings import load
from pipeline.stop_signal import StopSignal
from tests.support.ensemble_in_memory import Reader
from tests.support.followed_topic import FollowedTopic
from tests.support.waiting import DEADLINE_S, wait_until
from zk_source.config import WatchSettings
from zk_source.service.service import run

CLUSTER = "watched"
SESSION_S = 20.0
"""Longer than a busy machine lets a client wait: a session that ends is a resync, which the log then shows as well."""
STOPPED_S = 30.0
"""Kubernetes' own terminationGracePeriodSeconds."""


def settings_for(zookeeper: str, broker: KraftBroker, **options: Any) -> WatchSettings:
    """Return settings with topics of their own and no fixed port."""
    defaults: dict[str, Any] = {
        "cluster": CLUSTER,
        "zookeeper": zookeeper,
        "bootstrap_servers": broker.bootstrap_servers,
        "topic_prefix": f"t{uuid.uuid4().hex[:8]}",
        "watcher_metrics_port": 0,
        "session_timeout_s": SESSION_S,
    }
    return load(WatchSettings, **(defaults | options))


class RunningWatcher:
    """A watcher in a thread of this process."""

    def __init__(self, settings: WatchSettings) -> None:
        self.settings = settings
        self.error: KcmError | None = None
        self._stop = StopSignal()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        """The watcher has returned or raised."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Stop it as SIGTERM would."""
        self._stop.set()
        self._thread.join(STOPPED_S)
        assert self.ended, f"the watcher did not stop within {STOPPED_S:g} s"

    def _run(self) -> None:
        try:
            run(self.settings, self._stop)
        except KcmError as error:
            self.error = error


@contextmanager
def watching(settings: WatchSettings) -> Iterator[RunningWatcher]:
    """Run a watcher; it must not have failed at the end."""
    watcher = RunningWatcher(settings)
    try:
        yield watcher
    finally:
        watcher.stop()
    assert watcher.error is None, f"the watcher ended with: {watcher.error}"


class LogReader:
    """Reads a cluster's log as the fold does, checking seqs and digests on the way."""

    def __init__(self, settings: WatchSettings, *, strict: bool = True) -> None:
        self._topic = FollowedTopic(
            settings.bootstrap_servers, f"{settings.topic_prefix}.changes", silent_s=0.1
        )
        self._strict = strict
        self.reader = Reader()
        self.changes: list[ZnodeChange] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._topic.close()

    def read(self) -> list[ZnodeChange]:
        """Read what has come since the last call; return all changes so far."""
        for value in self._topic.poll():
            for change in decode_message(value).changes:
                self.changes.append(change)
                if self._strict:
                    self.reader.read(change)
        return self.changes

    def read_to_the_end(self) -> list[ZnodeChange]:
        """Return everything that is in the log now; `read` alone may return before Kafka answers."""
        end = self._topic.end()
        wait_until(self.read, lambda _: self._topic.has_read(end))
        return self.changes

    def wait_for(self, kind: ChangeKind, count: int = 1) -> ZnodeChange:
        """Wait until the log holds so many changes of a kind; return the last of them."""
        found = wait_until(
            lambda: [c for c in self.read() if c.kind is kind],
            lambda seen: len(seen) >= count,
        )
        return found[count - 1]

    def wait_for_newest(
        self, holds: Callable[[ZnodeChange], bool], *, deadline_s: float = DEADLINE_S
    ) -> ZnodeChange:
        """Wait until the condition holds for the log's newest change; return it.

        A new reader may see nothing at first: `read` does not wait for Kafka's answer.
        """
        newest = wait_until(
            lambda: self.read()[-1:],
            lambda seen: any(map(holds, seen)),
            deadline_s=deadline_s,
        )
        return newest[0]

    def wait_for_goodbye(self) -> ZnodeChange:
        """Wait until the newest change is a clean stop's; return it."""
        return self.wait_for_newest(lambda seen: seen.session is SessionState.LOST)

    def wait_for_tree(self, tree: dict[str, int]) -> None:
        """Wait until a reader of the log holds exactly this tree."""

        def differences() -> set[tuple[str, int]]:
            self.read()
            return set(self.reader.mzxids.items()) ^ set(tree.items())

        wait_until(differences, lambda seen: not seen)


def metric(port: int, name: str) -> float:
    """Return one of a watcher's own metrics; not a number while it has no sample of it."""
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
        lines = answer.read().decode().splitlines()
    beginnings = (f"{name}{{", f"{name} ")
    values = (float(line.rpartition(" ")[2]) for line in lines if line.startswith(beginnings))
    return next(values, math.nan)


def published_tree(client: KazooClient, chroot: str) -> dict[str, int]:
    """Return the mzxid of every published znode, by plain reads and without the chroot."""
    tree: dict[str, int] = {}
    todo = list(WATCHED_SUBTREES)
    while todo:
        path = todo.pop()
        try:
            stat = client.exists(chroot + path)
            children = client.get_children(chroot + path)
        except NoNodeError:
            continue
        if is_published(path) and stat is not None:
            tree[path] = stat.mzxid
        todo += [f"{path}/{child}" for child in children]
    return tree


@contextmanager
def kazoo_client(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    """A plain client."""
    client = KazooClient(hosts=zookeeper.connect_string, timeout=DEADLINE_S)
    client.start(timeout=DEADLINE_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def fill(client: KazooClient, chroot: str, *, topics: int = 3, cluster_id: str = "one") -> None:
    """Make the znodes of a small Kafka cluster."""
    nodes = {
        "/brokers/ids": b"",
        "/admin/delete_topics": b"",
        "/cluster/id": b'{"version":"1","id":"%s"}' % cluster_id.encode(),
        "/controller": b'{"version":1,"brokerid":0,"timestamp":"1"}',
        "/controller_epoch": b"1",
        "/config/topics/t0": b'{"version":1,"config":{"min.insync.replicas":"2","x":"secret"}}',
    }
    for number in range(topics):
        topic = f"/brokers/topics/t{number}"
        nodes[topic] = b'{"version":1,"partitions":{"0":[0]}}'
        nodes[f"{topic}/partitions/0/state"] = state(0)
    for path, data in nodes.items():
        client.create(chroot + path, data, makepath=True)


def state(leader: int) -> bytes:
    """Return a partition state's payload."""
    return b'{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":0,"isr":[%d]}' % (
        leader,
        leader,
    )


def repository() -> Path:
    """Return the folder that `python -m zk_source` runs from."""
    return Path(__file__).resolve().parents[3]
